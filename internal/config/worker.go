// Package config reads the settings of the worker and of the sender from the
// environment and judges them together. Whatever is wrong is reported at once,
// each problem on a line of its own that names the variable and says what to do.
package config

import (
	"log/slog"
	"time"

	"turnstile/pkg/session"
)

// Worker is the worker's settings. The tags are their documentation: help says
// what a setting means, unit what it is measured or written in, envDefault what
// holds when it is not set or empty. `worker --help` and docs/settings.md are made
// from them. A setting tagged secret is never repeated in an error. One tagged file is
// also read from the file that NAME_FILE names: a password, token or key. The agent's
// command is secret only: its words are on the agent's own command line anyway.
type Worker struct {
	RedisURL string `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" unit:"URL" secret:"true" file:"true" help:"The Redis to use: redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://. Each installation needs a database of its own."`

	Concurrency  int           `env:"TURNSTILE_CONCURRENCY" envDefault:"10" unit:"turns" help:"How many turns the worker runs at the same time, each of another session."`
	Agent        AgentKind     `env:"TURNSTILE_AGENT" unit:"echo, exec, acp, openai, claude, codex, gemini" help:"Which agent runs the turns. Must be set, except with --dev, where it is echo."`
	Command      Command       `env:"TURNSTILE_AGENT_COMMAND" unit:"command" secret:"true" help:"The command of the agent, split into words as a shell would and never run by one. exec runs it once per turn, acp keeps it running per session. claude, codex and gemini take it instead of the command of that name, with further options of it."`
	AgentEnv     Names         `env:"TURNSTILE_AGENT_ENV" unit:"names" help:"Further environment variables that the command gets, separated by commas; a name may end in *. It always gets PATH, HOME and the like, never REDIS_URL."`
	AgentFormat  AgentFormat   `env:"TURNSTILE_AGENT_FORMAT" envDefault:"text" unit:"text, jsonl" help:"How the command of exec is talked to: the message on stdin and the reply on stdout, or the turn and its events as JSON by the line."`
	AgentTimeout time.Duration `env:"TURNSTILE_AGENT_TIMEOUT" envDefault:"10m" unit:"duration" help:"How long one turn may take. Then the agent is stopped and the turn has failed; messages that wait are kept."`
	AskTimeout   time.Duration `env:"TURNSTILE_ASK_TIMEOUT" envDefault:"5m" unit:"duration" help:"How long an agent's question waits for the user's answer. Then it counts as denied, and the user is told. 0: as long as the turn may last."`

	Model            string         `env:"TURNSTILE_MODEL" unit:"text" help:"The model. openai needs it; claude, codex and gemini take their own default without it."`
	OpenAIBaseURL    string         `env:"TURNSTILE_OPENAI_BASE_URL" envDefault:"https://api.openai.com/v1" unit:"URL" help:"Where openai finds Chat Completions: any server that is compatible. OPENAI_BASE_URL is read where this is not set."`
	OpenAIKey        string         `env:"TURNSTILE_OPENAI_API_KEY" unit:"text" secret:"true" file:"true" help:"The key for it. OPENAI_API_KEY is read where this is not set. Empty: none is sent."`
	SystemPrompt     string         `env:"TURNSTILE_SYSTEM_PROMPT" unit:"text" help:"What openai tells the model before everything else."`
	SystemPromptFile string         `env:"TURNSTILE_SYSTEM_PROMPT_FILE" unit:"path" help:"A file with that text, read at the start. Only one of the two may be set."`
	MaxTokens        int            `env:"TURNSTILE_MAX_TOKENS" envDefault:"0" unit:"tokens" help:"How long one answer of openai's model may be. 0: as the server likes."`
	Temperature      Temperature    `env:"TURNSTILE_TEMPERATURE" unit:"0 to 2" help:"How freely openai's model chooses its words. Empty: as the server likes."`
	ContextTokens    int            `env:"TURNSTILE_CONTEXT_TOKENS" envDefault:"32000" unit:"tokens" help:"How much openai sends of the conversation with a turn, as estimated; the oldest goes first."`
	ToolsFile        string         `env:"TURNSTILE_TOOLS_FILE" unit:"path" help:"A JSON file with commands that openai's model may use as tools: docs/agents.md has its form. Read at the start."`
	ToolRounds       int            `env:"TURNSTILE_TOOL_ROUNDS" envDefault:"25" unit:"rounds" help:"How often openai's model may use tools in one turn before the turn fails."`
	ToolTimeout      time.Duration  `env:"TURNSTILE_TOOL_TIMEOUT" envDefault:"1m" unit:"duration" help:"How long one such tool may take. Then it is killed, and the model is told."`
	ACPPermissions   ACPPermissions `env:"TURNSTILE_ACP_PERMISSIONS" envDefault:"ask" unit:"allow, deny, ask" help:"What acp answers an agent that asks for permission. ask: the user is asked, and answers with /approve or /deny."`
	WorkspaceDir     string         `env:"TURNSTILE_WORKSPACE_DIR" unit:"path" help:"Where acp, claude, codex and gemini work: each session in a directory of its own below it, made when it is needed. Empty: all in the worker's own."`
	WorkspaceGroup   Group          `env:"TURNSTILE_WORKSPACE_GROUP" unit:"group's number" help:"The group that may write to directories on the way to TURNSTILE_WORKSPACE_DIR: Kubernetes' fsGroup. Empty: they may be writable for root and the worker's user only, or have the sticky bit."`
	ACPFiles         bool           `env:"TURNSTILE_ACP_FILES" envDefault:"false" unit:"true, false" help:"Whether acp reads and writes files for an agent that asks it to, in the session's directory only. Needs TURNSTILE_WORKSPACE_DIR."`
	ACPTerminal      bool           `env:"TURNSTILE_ACP_TERMINAL" envDefault:"false" unit:"true, false" help:"Whether acp runs commands for an agent that asks it to, in the session's directory. Needs TURNSTILE_WORKSPACE_DIR."`

	SentinelTTL    time.Duration `env:"TURNSTILE_SENTINEL_TTL" envDefault:"15s" unit:"duration" help:"How long a session stays taken after its worker died. It is renewed three times in that time. At least 1s."`
	DrainTimeout   time.Duration `env:"TURNSTILE_DRAIN_TIMEOUT" envDefault:"60s" unit:"duration" help:"How long a worker that is told to end lets running turns finish. 0: not at all."`
	InterruptGrace time.Duration `env:"TURNSTILE_INTERRUPT_GRACE" envDefault:"5s" unit:"duration" help:"How long an interrupted agent may take to stop before it is killed. 0: killed at once."`
	StopTimeout    time.Duration `env:"TURNSTILE_STOP_TIMEOUT" envDefault:"0" unit:"duration" help:"How long the supervisor waits before it kills the worker (stop_grace_period, TimeoutStopSec). Only checked: DRAIN_TIMEOUT + INTERRUPT_GRACE + 5s must fit. 0: unknown."`

	WarmAgents int           `env:"TURNSTILE_WARM_AGENTS" unit:"agents" help:"How many agents are kept between turns, of agents that can be. Those that run a turn are not counted; the longest idle is closed first. 0: none. Empty: as many as TURNSTILE_CONCURRENCY."`
	WarmTTL    time.Duration `env:"TURNSTILE_WARM_TTL" envDefault:"1h" unit:"duration" help:"How long an agent is kept whose session has no turn. At least 1s."`

	MaxAttempts   int                `env:"TURNSTILE_MAX_ATTEMPTS" envDefault:"3" unit:"attempts" help:"How often a message is tried whose turn fails in a way that may be retried. Then it is archived."`
	RetryBackoff  time.Duration      `env:"TURNSTILE_RETRY_BACKOFF" envDefault:"1s" unit:"duration" help:"How long the first retry waits. It doubles with every further one, with jitter."`
	Retention     time.Duration      `env:"TURNSTILE_RETENTION" envDefault:"1h" unit:"duration" help:"How long the result of a finished message is kept, and so how long the same message id is a duplicate. 0: not kept, and enqueue --wait on a duplicate finds nothing."`
	BusyMode      session.Mode       `env:"TURNSTILE_BUSY_MODE" envDefault:"queue" unit:"queue, collect, steer, interrupt, rollback, reject" help:"What a message does that finds its session busy, if neither it nor its session says."`
	FollowupCap   int                `env:"TURNSTILE_FOLLOWUP_CAP" envDefault:"100" unit:"messages" help:"How many messages may wait in one session while a turn runs."`
	FollowupDrop  session.DropPolicy `env:"TURNSTILE_FOLLOWUP_DROP" envDefault:"new" unit:"new, old, summarize" help:"What goes when more would wait. new: the new message is refused; old: the oldest is archived; summarize: the oldest is archived and the next turn is told of it."`
	CollectWindow time.Duration      `env:"TURNSTILE_COLLECT_WINDOW" envDefault:"1s" unit:"duration" help:"How long messages of the busy mode collect wait for another one, before they are one turn."`

	MessageTextBytes   int `env:"TURNSTILE_MESSAGE_TEXT_BYTES" envDefault:"1048576" unit:"bytes" help:"How many bytes of UTF-8 a message's text may have. This limit and those up to TURNSTILE_MESSAGES_CAP are for workers and senders: give both the same."`
	MessageMetaBytes   int `env:"TURNSTILE_MESSAGE_META_BYTES" envDefault:"65536" unit:"bytes" help:"How many bytes the names and values of its meta may have together."`
	MessageAttachments int `env:"TURNSTILE_MESSAGE_ATTACHMENTS" envDefault:"100" unit:"attachments" help:"How many attachments it may have."`
	MessageBytes       int `env:"TURNSTILE_MESSAGE_BYTES" envDefault:"2097152" unit:"bytes" help:"How many bytes the whole message may have in JSON. A sender refuses a message that breaks a limit, and a worker archives one with the reason."`
	LineCap            int `env:"TURNSTILE_LINE_CAP" envDefault:"10000" unit:"messages" help:"How many messages may wait in one session, whether a turn runs or not; at most half of them may be delayed ones. Senders are refused; what others put in beyond it is archived."`
	MessagesCap        int `env:"TURNSTILE_MESSAGES_CAP" envDefault:"0" unit:"messages" help:"How many messages may wait in all sessions together, as the workers have last counted them. Senders are refused then, except to sessions with a running turn. 0: as many as come."`

	CheckpointInterval time.Duration `env:"TURNSTILE_CHECKPOINT_INTERVAL" envDefault:"15s" unit:"duration" help:"How often a turn that does something is stored, to go on from there if it is cut off."`
	CrashPolicy        CrashPolicy   `env:"TURNSTILE_CRASH_POLICY" envDefault:"resume" unit:"resume, suspend" help:"What a worker's death in mid-turn does: the turn is run again in the same conversation, with a note, or in a fresh one."`
	StuckLimit         int           `env:"TURNSTILE_STUCK_LIMIT" envDefault:"3" unit:"interruptions" help:"How many interruptions in a row, without a finished turn between them, make the session begin a fresh conversation. If the last was a worker's death, the message is archived."`
	ResumeFreshness    time.Duration `env:"TURNSTILE_RESUME_FRESHNESS" envDefault:"1h" unit:"duration" help:"How old an interruption may be for the agent to be told of it. 0: always."`

	SweepInterval time.Duration `env:"TURNSTILE_SWEEP_INTERVAL" envDefault:"15s" unit:"duration" help:"How often the workers look for sessions whose wake-up was lost."`
	RecoveryRate  Rate          `env:"TURNSTILE_RECOVERY_RATE" envDefault:"50/s" unit:"sessions/s" help:"How many sessions are taken up per second, over all workers, that are late after a crash or an outage."`
	TurnShare     TurnShare     `env:"TURNSTILE_TURN_SHARE" envDefault:"10,60s" unit:"messages,duration" help:"After how many messages or how much time a session makes room for others that wait. One of the two may be left out."`
	MessageMaxAge time.Duration `env:"TURNSTILE_MESSAGE_MAX_AGE" envDefault:"0" unit:"duration" help:"Messages that waited longer are archived as expired and not run. 0: none is too old."`

	TranscriptCap   int           `env:"TURNSTILE_TRANSCRIPT_CAP" envDefault:"2000" unit:"entries" help:"How many entries a transcript keeps at most; the oldest go first."`
	TranscriptBytes int           `env:"TURNSTILE_TRANSCRIPT_BYTES" envDefault:"67108864" unit:"bytes" help:"How much of Redis' memory a transcript takes at most; the oldest entries go first. One entry has at most a sixteenth of it, but always as much as a message may."`
	TranscriptTTL   time.Duration `env:"TURNSTILE_TRANSCRIPT_TTL" envDefault:"30d" unit:"duration" help:"How long a transcript is kept after its last entry."`
	SessionTTL      time.Duration `env:"TURNSTILE_SESSION_TTL" envDefault:"30d" unit:"duration" help:"How long a session's record is kept after its last activity."`
	EventsCap       int           `env:"TURNSTILE_EVENTS_CAP" envDefault:"1000" unit:"events" help:"How many events of a session are kept for those who follow it, approximately."`
	EventsBytes     int           `env:"TURNSTILE_EVENTS_BYTES" envDefault:"8388608" unit:"bytes" help:"How many bytes they have at most; the oldest go first."`
	ArchiveTTL      time.Duration `env:"TURNSTILE_ARCHIVE_TTL" envDefault:"90d" unit:"duration" help:"How long archived messages are kept."`
	ListIdle        bool          `env:"TURNSTILE_LIST_IDLE" envDefault:"false" unit:"true, false" help:"Whether asynqmon lists every session that is known. Without it, it lists those with messages that run, wait, are delayed or are archived; the others are off its list within a minute. Set it alike on all workers."`

	HTTPAddr       string `env:"TURNSTILE_HTTP_ADDR" unit:"HOST:PORT" help:"Where /healthz, /readyz, /metrics and /asynqmon are served. Empty: nowhere; with --dev 127.0.0.1:8080. On another address than loopback TURNSTILE_HTTP_TOKEN is needed."`
	HTTPToken      string `env:"TURNSTILE_HTTP_TOKEN" unit:"text" secret:"true" file:"true" help:"The token that /asynqmon and /metrics ask for, as a bearer token or as the password of any user. Empty: none is asked for, and /asynqmon is closed where the agent runs programs, for they reach it too; --dev makes one then."`
	DashboardWrite bool   `env:"TURNSTILE_DASHBOARD_WRITE" envDefault:"false" unit:"true, false" help:"Whether asynqmon may change anything: run, archive, delete, cancel, pause."`

	LogLevel  slog.Level `env:"TURNSTILE_LOG_LEVEL" envDefault:"info" unit:"debug, info, warn, error" help:"The least important messages that are logged, to stderr. With --dev warn."`
	LogFormat LogFormat  `env:"TURNSTILE_LOG_FORMAT" envDefault:"text" unit:"text, json" help:"How they are written."`

	// RedisURLSet tells that REDIS_URL came from outside, so that --dev uses it
	// instead of a Redis of its own.
	RedisURLSet bool `env:"-"`
}

// Sender is the settings of programs that put messages in. What else there is
// for the worker may be set beside them.
type Sender struct {
	RedisURL  string        `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" unit:"URL" secret:"true" file:"true" help:"The Redis that the workers use."`
	Retention time.Duration `env:"TURNSTILE_RETENTION" envDefault:"1h" unit:"duration" help:"How long the result of a finished message is kept, and so how long the same message id is a duplicate."`

	MessageTextBytes   int `env:"TURNSTILE_MESSAGE_TEXT_BYTES" envDefault:"1048576" unit:"bytes" help:"How many bytes of UTF-8 a message's text may have. This limit and those up to TURNSTILE_MESSAGES_CAP are for workers and senders: give both the same."`
	MessageMetaBytes   int `env:"TURNSTILE_MESSAGE_META_BYTES" envDefault:"65536" unit:"bytes" help:"How many bytes the names and values of its meta may have together."`
	MessageAttachments int `env:"TURNSTILE_MESSAGE_ATTACHMENTS" envDefault:"100" unit:"attachments" help:"How many attachments it may have."`
	MessageBytes       int `env:"TURNSTILE_MESSAGE_BYTES" envDefault:"2097152" unit:"bytes" help:"How many bytes the whole message may have in JSON. A sender refuses a message that breaks a limit, and a worker archives one with the reason."`
	LineCap            int `env:"TURNSTILE_LINE_CAP" envDefault:"10000" unit:"messages" help:"How many messages may wait in one session, whether a turn runs or not; at most half of them may be delayed ones. Senders are refused; what others put in beyond it is archived."`
	MessagesCap        int `env:"TURNSTILE_MESSAGES_CAP" envDefault:"0" unit:"messages" help:"How many messages may wait in all sessions together, as the workers have last counted them. Senders are refused then, except to sessions with a running turn. 0: as many as come."`

	LogLevel  slog.Level `env:"TURNSTILE_LOG_LEVEL" envDefault:"info" unit:"debug, info, warn, error" help:"The least important messages that are logged, to stderr."`
	LogFormat LogFormat  `env:"TURNSTILE_LOG_FORMAT" envDefault:"text" unit:"text, json" help:"How they are written."`
}

// DevDefaults are what `worker --dev` assumes where nothing is set.
func DevDefaults() map[string]string {
	return map[string]string{
		"TURNSTILE_AGENT":     string(AgentEcho),
		"TURNSTILE_HTTP_ADDR": "127.0.0.1:8080",
		"TURNSTILE_LOG_LEVEL": "warn", // the terminal is for the conversation
	}
}

// limits are those of one message.
func limits(text, meta, attachments, payload int) session.Limits {
	return session.Limits{Text: text, Meta: meta, Attachments: attachments, Payload: payload}
}

// Limits are those of one message.
func (w Worker) Limits() session.Limits {
	return limits(w.MessageTextBytes, w.MessageMetaBytes, w.MessageAttachments, w.MessageBytes)
}

// Limits are those of one message.
func (s Sender) Limits() session.Limits {
	return limits(s.MessageTextBytes, s.MessageMetaBytes, s.MessageAttachments, s.MessageBytes)
}

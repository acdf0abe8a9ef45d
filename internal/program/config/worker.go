// Package config reads the settings of the worker and of the sender from the environment and
// validates them together. It reports all problems at once, each on its own line with the variable
// and the remedy.
package config

import (
	"log/slog"
	"time"

	"turnstile/pkg/session"
)

// Worker has the worker's settings. The tags document them: help is the meaning, unit the unit or
// form, envDefault the value when the variable is unset or empty. `worker --help` and
// docs/settings.md are made from the tags. Errors never repeat the value of a setting tagged
// secret. A setting tagged file may also be read from the file that NAME_FILE names: a password,
// token or key. The agent's command is only secret, not file: its words are on the agent's own
// command line anyway. A setting tagged agree must be the same everywhere: see Agreed.
type Worker struct {
	RedisURL string `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" unit:"URL" secret:"true" file:"true" help:"The Redis to use: redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://. Each installation needs a separate database."`

	Concurrency int `env:"TURNSTILE_CONCURRENCY" envDefault:"10" unit:"turns" help:"The number of turns that the worker runs at the same time, each of another session."`

	AgentSettings
	AgentsFile string `env:"TURNSTILE_AGENTS_FILE" unit:"path" agree:"file" help:"A JSON file with agents by name, each for some sessions, in addition to the one of these settings. docs/agents.md has its form."`

	Pool Names `env:"TURNSTILE_AGENTS" unit:"names" help:"The agents that this worker runs, of TURNSTILE_AGENTS_FILE, separated by commas; default is the one of TURNSTILE_AGENT. Other workers run the others: give all the same settings but this one. Empty: all."`

	SentinelTTL    time.Duration `env:"TURNSTILE_SENTINEL_TTL" envDefault:"15s" unit:"duration" help:"The lease: how long a session stays owned after its worker died. It is renewed three times in that time. At least 1s, and six round trips to Redis."`
	ParkAfter      time.Duration `env:"TURNSTILE_PARK_AFTER" envDefault:"30s" unit:"duration" help:"How long a turn keeps its slot while it waits for the user's decision, a program's value or a time. Then it needs no worker if its agent can go on later, as the agent model can; for others see TURNSTILE_WAITING_AGENTS. 0: always."`
	ParkedCap      int           `env:"TURNSTILE_PARKED_CAP" envDefault:"100000" unit:"turns" agree:"value" help:"How many turns may wait without a slot, for a decision, a value or a time, of all workers together. Beyond this number, waiting turns keep their slots. docs/guarantees.md has how exact it is. 0: no limit."`
	WaitingAgents  int           `env:"TURNSTILE_WAITING_AGENTS" unit:"turns" help:"How many turns of agents that cannot go on later, such as acp, wait for a decision without a slot, after TURNSTILE_PARK_AFTER. Their agents keep running, in addition to TURNSTILE_CONCURRENCY. 0: none. Empty: as many as TURNSTILE_CONCURRENCY."`
	DrainTimeout   time.Duration `env:"TURNSTILE_DRAIN_TIMEOUT" envDefault:"60s" unit:"duration" help:"How long a draining worker lets running turns finish. 0: it interrupts them at once."`
	InterruptGrace time.Duration `env:"TURNSTILE_INTERRUPT_GRACE" envDefault:"5s" unit:"duration" help:"How long an interrupted agent may take to stop before it is killed. 0: it is killed at once."`
	StopTimeout    time.Duration `env:"TURNSTILE_STOP_TIMEOUT" envDefault:"0" unit:"duration" help:"How long the supervisor waits before it kills the worker (stop_grace_period, TimeoutStopSec). It is only checked: DRAIN_TIMEOUT + INTERRUPT_GRACE + 5s must fit into it. 0: unknown."`

	WarmAgents int           `env:"TURNSTILE_WARM_AGENTS" unit:"agents" help:"The number of warm agents: those kept between turns. Agents with a running turn are not counted. The longest idle is closed first. 0: none. Empty: as many as TURNSTILE_CONCURRENCY."`
	WarmTTL    time.Duration `env:"TURNSTILE_WARM_TTL" envDefault:"1h" unit:"duration" help:"How long an idle agent is kept warm. At least 1s."`

	MaxAttempts   int                `env:"TURNSTILE_MAX_ATTEMPTS" envDefault:"3" unit:"attempts" agree:"value" help:"How often a message is tried if its turn fails in a way that may be retried. After that it becomes a dead letter."`
	RetryBackoff  time.Duration      `env:"TURNSTILE_RETRY_BACKOFF" envDefault:"1s" unit:"duration" agree:"value" help:"How long the first retry waits. Each further one waits twice as long, with jitter."`
	Retention     time.Duration      `env:"TURNSTILE_RETENTION" envDefault:"1h" unit:"duration" agree:"value" help:"How long the result of a finished message and the events of an idle session are kept, events at least 5m. 0: no results, so enqueue --wait on a duplicate finds nothing."`
	BusyMode      session.Mode       `env:"TURNSTILE_BUSY_MODE" envDefault:"queue" unit:"queue, collect, steer, interrupt, rollback, reject" agree:"value" help:"The mode of a message for a busy session, if neither the message nor the session has one."`
	FollowupCap   int                `env:"TURNSTILE_FOLLOWUP_CAP" envDefault:"100" unit:"messages" agree:"value" help:"The number of messages that may wait in one session while a turn runs."`
	FollowupDrop  session.DropPolicy `env:"TURNSTILE_FOLLOWUP_DROP" envDefault:"new" unit:"new, old, summarize" agree:"value" help:"The policy beyond that cap. new: the new message is refused. old: the oldest becomes a dead letter. summarize: the same, and the next turn gets a note."`
	CollectWindow time.Duration      `env:"TURNSTILE_COLLECT_WINDOW" envDefault:"1s" unit:"duration" agree:"value" help:"How long messages of the busy mode collect wait for another one before they share a turn."`

	Stored

	CrashPolicy CrashPolicy `env:"TURNSTILE_CRASH_POLICY" envDefault:"resume" unit:"resume, suspend" agree:"value" help:"How a turn is recovered after its worker's death. resume: it runs again with the same transcript, and a note. suspend: it runs again with a new one."`
	StuckLimit  int         `env:"TURNSTILE_STUCK_LIMIT" envDefault:"3" unit:"interruptions" agree:"value" help:"How many interruptions in a row make the session begin a new transcript. A deploy counts once, a run with progress as a tenth. If the last one was a worker's death, the message becomes a dead letter."`

	SweepInterval time.Duration `env:"TURNSTILE_SWEEP_INTERVAL" envDefault:"15s" unit:"duration" help:"How often the workers look for sessions with a lost wake-up."`
	RecoveryRate  Rate          `env:"TURNSTILE_RECOVERY_RATE" envDefault:"50/s" unit:"sessions/s" agree:"value" help:"How many overdue sessions are recovered per second after a crash or an outage, by all workers together."`
	MessageMaxAge time.Duration `env:"TURNSTILE_MESSAGE_MAX_AGE" envDefault:"0" unit:"duration" agree:"value" help:"Messages that waited longer become dead letters, as expired, and do not run. 0: no limit."`

	TranscriptBytes int           `env:"TURNSTILE_TRANSCRIPT_BYTES" envDefault:"67108864" unit:"bytes" agree:"value" help:"The most memory of Redis for a transcript. The oldest entries are deleted first, also over 2,000 entries, or more in proportion if this is above its default. One entry may have a sixteenth of it, and always as much as a message may have."`
	TranscriptTTL   time.Duration `env:"TURNSTILE_TRANSCRIPT_TTL" envDefault:"30d" unit:"duration" agree:"value" help:"How long a transcript is kept after its last entry."`
	SessionTTL      time.Duration `env:"TURNSTILE_SESSION_TTL" envDefault:"30d" unit:"duration" agree:"value" help:"How long a session's record is kept after its last activity."`
	EventsBytes     int           `env:"TURNSTILE_EVENTS_BYTES" envDefault:"8388608" unit:"bytes" agree:"value" help:"The most bytes of a session's events, which are kept for followers. The oldest are deleted first, also over about 1,000 events, or more in proportion if this is above its default."`
	ArchiveTTL      time.Duration `env:"TURNSTILE_ARCHIVE_TTL" envDefault:"90d" unit:"duration" agree:"value" help:"How long dead letters are kept."`

	HTTPAddr       string `env:"TURNSTILE_HTTP_ADDR" unit:"HOST:PORT" help:"Where /healthz, /readyz, /metrics and /asynqmon are served. Empty: nowhere; with --dev 127.0.0.1:8080. Any address but loopback needs TURNSTILE_HTTP_TOKEN."`
	HTTPToken      string `env:"TURNSTILE_HTTP_TOKEN" unit:"text" secret:"true" file:"true" help:"The token that /asynqmon and /metrics require, as a bearer token or as the password of any user. Empty: they require none, and /asynqmon is closed if the agent runs programs, which could reach it; --dev makes a token then."`
	DashboardWrite bool   `env:"TURNSTILE_DASHBOARD_WRITE" envDefault:"false" unit:"true, false" help:"Whether asynqmon may change anything: run, archive, delete, cancel, pause."`

	Deliver          bool   `env:"TURNSTILE_DELIVER" envDefault:"false" unit:"true, false" help:"Whether this process delivers replies to the destinations of webhooks. Needs TURNSTILE_GATEWAY_DESTINATIONS_FILE."`
	DestinationsFile string `env:"TURNSTILE_GATEWAY_DESTINATIONS_FILE" unit:"path" agree:"given" help:"A JSON file with the destinations of webhooks and their secrets. docs/webhooks.md has its form. Workers and gateways reload it within 2 s of a change. Gateways share its names and patterns, and refuse a reply_to that is not in it."`

	TokensFile string `env:"TURNSTILE_GATEWAY_TOKENS_FILE" unit:"path" help:"A JSON file with the tokens and their permissions, as in docs/http.md. Gateways reload it on SIGHUP. Empty: everybody who reaches the address may do everything, unless a worker's agent runs programs; see TURNSTILE_GATEWAY_OPEN. A worker only checks that approvers have tokens."`

	LogLevel  slog.Level `env:"TURNSTILE_LOG_LEVEL" envDefault:"info" unit:"debug, info, warn, error" help:"The lowest level that is logged, to stderr. With --dev warn."`
	LogFormat LogFormat  `env:"TURNSTILE_LOG_FORMAT" envDefault:"text" unit:"text, json" help:"The format of the log."`

	// Agents are those of AgentsFile.
	Agents []NamedAgent `env:"-"`

	// AgentName is the name of the agent that As has chosen. Empty: the environment's.
	AgentName string `env:"-"`

	// AgentSet are variables that the chosen agent's programs get, as NAME=VALUE, and AgentsOwn those that entries of
	// AgentsFile name for their keys: no program gets them.
	AgentSet, AgentsOwn []string `env:"-"`

	// RedisURLSet reports whether REDIS_URL was set, so that --dev uses it instead of starting a
	// Redis.
	RedisURLSet bool `env:"-"`
}

// AgentSettings has the settings of one agent. An agent of AgentsFile has them, too.
type AgentSettings struct {
	Agent        AgentKind     `env:"TURNSTILE_AGENT" unit:"echo, exec, acp, model, claude, codex, gemini" agree:"value" help:"The agent that runs the turns. Required, except with --dev, where it is echo."`
	Command      Command       `env:"TURNSTILE_AGENT_COMMAND" unit:"command" secret:"true" agree:"hash" help:"The agent's command. It is split into words as a shell would, but no shell runs it. exec runs it once per turn, acp keeps it running per session. claude, codex and gemini run it instead of the command of that name, with further options."`
	UserCommands Names         `env:"TURNSTILE_USER_COMMANDS" unit:"names" agree:"value" help:"The commands of acp's, claude's and gemini's program that a user's message may be, without the slash, separated by commas: compact,review. Empty: none, and every text is words for the model."`
	AgentEnv     Names         `env:"TURNSTILE_AGENT_ENV" unit:"names" help:"Further environment variables for the agent's command, separated by commas; a name may end in *. The command always gets PATH, HOME and the like, and never REDIS_URL."`
	AgentFormat  AgentFormat   `env:"TURNSTILE_AGENT_FORMAT" envDefault:"text" unit:"text, jsonl" agree:"value" help:"The format of exec's command. text: the message on stdin and the reply on stdout. jsonl: the turn and its events, one JSON object a line."`
	AgentTimeout time.Duration `env:"TURNSTILE_AGENT_TIMEOUT" envDefault:"10m" unit:"duration" agree:"value" help:"The longest that a turn may take; of one with steps all runs count. Then the agent is stopped and the turn fails. Waiting messages are kept."`
	AskTimeout   time.Duration `env:"TURNSTILE_ASK_TIMEOUT" envDefault:"5m" unit:"duration" agree:"value" help:"How long an agent's question waits for the user's decision. Then it counts as denied, and the user gets a notice. 0: as long as the turn may last."`

	Approvers Approvers `env:"TURNSTILE_APPROVERS" unit:"senders" agree:"hash" help:"Who may decide the agent's questions over HTTP, separated by commas: sender (the senders of the running turn's messages), anyone, or senders such as web/alice and ops/*, where * is any characters but a slash. A token that may control must be one of them, too. Empty: TURNSTILE_GATEWAY_APPROVE decides."`

	Provider       Provider       `env:"TURNSTILE_PROVIDER" envDefault:"openai" unit:"openai, anthropic" agree:"value" help:"The API that the agent model speaks. openai: Chat Completions, of any server. anthropic: the Messages API."`
	Model          string         `env:"TURNSTILE_MODEL" unit:"text" agree:"value" help:"The model. The agent model needs it; acp, claude, codex and gemini have a default. acp's agent must let its client choose it."`
	ModelURL       string         `env:"TURNSTILE_MODEL_URL" unit:"URL" agree:"hash" help:"The server that the agent model calls. If unset, OPENAI_BASE_URL or ANTHROPIC_BASE_URL is read. Empty: the vendor's."`
	ModelKey       string         `env:"TURNSTILE_MODEL_KEY" unit:"text" secret:"true" file:"true" help:"The key for that server. If unset, OPENAI_API_KEY or ANTHROPIC_API_KEY is read, unless TURNSTILE_MODEL_URL names another server. Empty: no key is sent."`
	ModelFile      string         `env:"TURNSTILE_MODEL_FILE" unit:"path" agree:"file" help:"A JSON file with the system prompt and limits of the agent model, read at the start. docs/agents/model.md has its form."`
	ToolsFile      string         `env:"TURNSTILE_TOOLS_FILE" unit:"path" agree:"file" help:"A JSON file with commands that the agent model may use as tools, read at the start. docs/agents/model.md has its form."`
	MCPFile        string         `env:"TURNSTILE_MCP_FILE" unit:"path" agree:"file" help:"A JSON file with MCP servers for the agents model, acp, claude, codex and gemini, in the form of .mcp.json, read at the start. docs/agents/mcp.md has its form."`
	Instruct       bool           `env:"TURNSTILE_INSTRUCT" envDefault:"false" unit:"true, false" agree:"value" help:"Whether clients of OpenAI's API may bring the agent model their own tools, instructions, history and settings. Their tokens need instruct, too. docs/openai-api.md has what they bring."`
	ACPMode        string         `env:"TURNSTILE_ACP_MODE" unit:"text" agree:"value" help:"The mode in which acp's agent works, such as plan, by the agent's own id. The agent must let its client choose it. Empty: the agent's default."`
	ACPPermissions ACPPermissions `env:"TURNSTILE_ACP_PERMISSIONS" envDefault:"ask" unit:"allow, deny, ask" agree:"value" help:"The decision when an agent of acp asks for a permission. ask: the user decides, with /approve or /deny."`
	AskTools       Names          `env:"TURNSTILE_ASK_TOOLS" unit:"names" agree:"value" help:"The tools of claude for which the user is asked, with /approve or /deny, separated by commas: Bash,Write,mcp__*. Allow them in no other way. Empty: its own settings decide."`
	WorkspaceDir   string         `env:"TURNSTILE_WORKSPACE_DIR" unit:"path" help:"Where acp, claude, codex and gemini work. Each session gets a separate directory in it, made when needed. Empty: all work in the worker's directory."`
	WorkspaceGroup Group          `env:"TURNSTILE_WORKSPACE_GROUP" unit:"group's number" help:"The group that may write to the directories above TURNSTILE_WORKSPACE_DIR, such as Kubernetes' fsGroup. Empty: only root and the worker's user may, or the directory has the sticky bit."`
	ACPFiles       bool           `env:"TURNSTILE_ACP_FILES" envDefault:"false" unit:"true, false" agree:"value" help:"Whether acp reads and writes files for an agent that asks it to, in the session's directory only. Needs TURNSTILE_WORKSPACE_DIR."`
	ACPTerminal    bool           `env:"TURNSTILE_ACP_TERMINAL" envDefault:"false" unit:"true, false" agree:"value" help:"Whether acp runs commands for an agent that asks it to, in the session's directory. Needs TURNSTILE_WORKSPACE_DIR."`

	Isolation     Isolation `env:"TURNSTILE_ISOLATION" envDefault:"none" unit:"none, confined, wrapper" agree:"value" help:"How the agent's programs, its tools included, are kept from the worker and from other sessions. confined: by the kernel (Linux 6.12 or newer). wrapper: by the command of TURNSTILE_WRAPPER. docs/security.md has what each stops. Needs TURNSTILE_WORKSPACE_DIR, except for none."`
	ConfinedRead  Paths     `env:"TURNSTILE_CONFINED_READ" unit:"paths" help:"Further files and directories that confined programs may read and execute, separated by colons: where the agent's interpreter is installed, for example."`
	ConfinedPorts Ports     `env:"TURNSTILE_CONFINED_PORTS" envDefault:"443" unit:"ports" help:"The TCP ports to which confined programs may connect, on any host, separated by commas. On PORT/listen they may listen, too. Do not name Redis' port."`
	Wrapper       Command   `env:"TURNSTILE_WRAPPER" unit:"command" secret:"true" help:"The command that starts the agent's programs with isolation wrapper, such as bwrap with its options. It is split like TURNSTILE_AGENT_COMMAND, and gets the program's words as its last arguments. In its words {workspace} and {home} are the session's directories, {session} is a name of 32 characters for the session and {run} a new one for each start. The program must end with it, or by TURNSTILE_WRAPPER_KILL."`
	WrapperKill   Command   `env:"TURNSTILE_WRAPPER_KILL" unit:"command" secret:"true" help:"A command that ends what the wrapper has started, with the same placeholders. It runs at the program's end, also when the lease is lost or the worker dies, and must succeed if nothing is left. Empty: everything ends with the wrapper."`
}

// Sender has the settings of programs that send messages. The worker's other settings may be set
// too.
type Sender struct {
	RedisURL  string        `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" unit:"URL" secret:"true" file:"true" help:"The Redis that the workers use."`
	Retention time.Duration `env:"TURNSTILE_RETENTION" envDefault:"1h" unit:"duration" help:"How long the result of a finished message is kept."`

	Stored

	LogLevel  slog.Level `env:"TURNSTILE_LOG_LEVEL" envDefault:"info" unit:"debug, info, warn, error" help:"The lowest level that is logged, to stderr."`
	LogFormat LogFormat  `env:"TURNSTILE_LOG_FORMAT" envDefault:"text" unit:"text, json" help:"The format of the log."`
}

// DevDefaults are the defaults of `worker --dev`.
func DevDefaults() map[string]string {
	return map[string]string{
		"TURNSTILE_AGENT":     string(AgentEcho),
		"TURNSTILE_HTTP_ADDR": "127.0.0.1:8080",
		"TURNSTILE_LOG_LEVEL": "warn", // the terminal is for the console
	}
}

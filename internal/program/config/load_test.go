package config

import (
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/session"
)

// with returns a valid environment changed by vars.
func with(vars map[string]string) []string {
	all := map[string]string{"PATH": "/bin", "TURNSTILE_AGENT": "echo"}
	maps.Copy(all, vars)
	var environ []string
	for name, value := range all {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// lines returns the problems of an error, one per line.
func lines(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("%v is no ErrInvalid", err)
	}
	return strings.Split(err.Error(), "\n")
}

const day = 24 * time.Hour

func TestWorkerDefaults(t *testing.T) {
	t.Parallel()
	got, err := LoadWorker(with(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Worker{
		RedisURL: "redis://127.0.0.1:6379/0", Concurrency: 10,
		AgentSettings: AgentSettings{
			Agent: AgentEcho, AgentFormat: FormatText, AgentTimeout: 10 * time.Minute, AskTimeout: 5 * time.Minute,
			Provider: ProviderOpenAI, ModelURL: "https://api.openai.com/v1", ACPPermissions: PermissionsAsk,
			Isolation: "none", ConfinedPorts: Ports{Connect: []int{443}},
		},
		SentinelTTL: 15 * time.Second, ParkAfter: 30 * time.Second, ParkedCap: 100_000, DrainTimeout: time.Minute, InterruptGrace: 5 * time.Second,
		WaitingAgents: 10, WarmAgents: 10, WarmTTL: time.Hour,
		MaxAttempts: 3, RetryBackoff: time.Second, Retention: time.Hour, BusyMode: session.ModeQueue, FollowupCap: 100,
		FollowupDrop: session.DropNew, CollectWindow: time.Second,
		CrashPolicy: CrashResume, StuckLimit: 3,
		SweepInterval: 15 * time.Second, RecoveryRate: 50,
		Stored:          Stored{MessageBytes: 2 << 20, LineCap: 10_000, OutboxCap: 1000, DestinationCap: 1_000_000, IdempotencyTTL: day},
		TranscriptBytes: 64 << 20,
		TranscriptTTL:   30 * day, SessionTTL: 30 * day, EventsBytes: 8388608, ArchiveTTL: 90 * day,
		LogLevel: slog.LevelInfo, LogFormat: LogText,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Every variable reaches its field, and an empty one means the default.
func TestWorkerEverythingSet(t *testing.T) {
	t.Parallel()
	agentsFile := write(t, `{"acme": {"sessions": ["acme:*"], "agent": "echo"}}`)
	vars := map[string]string{
		"TURNSTILE_AGENTS_FILE": agentsFile, "TURNSTILE_AGENTS": "acme,default", "TURNSTILE_APPROVERS": " sender, ops/*", "TURNSTILE_GATEWAY_TOKENS_FILE": "/tokens",
		"REDIS_URL": "redis-cluster://a,b", "TURNSTILE_CONCURRENCY": "3",
		"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": `sh -c 'cat; echo "$X"'`, "TURNSTILE_AGENT_ENV": "A, B_*,",
		"TURNSTILE_AGENT_FORMAT": "jsonl", "TURNSTILE_AGENT_TIMEOUT": "1h", "TURNSTILE_ASK_TIMEOUT": "0",
		"TURNSTILE_WARM_AGENTS": "0", "TURNSTILE_WARM_TTL": "1m", "TURNSTILE_WAITING_AGENTS": "0",
		"TURNSTILE_PROVIDER": "openai", "TURNSTILE_MODEL": "m", "TURNSTILE_MODEL_URL": "http://127.0.0.1:1/v1", "OPENAI_BASE_URL": "not this", "TURNSTILE_MODEL_KEY": "k", "OPENAI_API_KEY": "not this",
		"TURNSTILE_MODEL_FILE": "/p", "TURNSTILE_TOOLS_FILE": "/t", "TURNSTILE_MCP_FILE": "/m",
		"TURNSTILE_INSTRUCT": "true", "TURNSTILE_ACP_PERMISSIONS": "deny", "TURNSTILE_ACP_MODE": "plan", "TURNSTILE_WORKSPACE_DIR": "/w", "TURNSTILE_WORKSPACE_GROUP": "2000", "TURNSTILE_ACP_FILES": "true", "TURNSTILE_ACP_TERMINAL": "true",
		"TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_CONFINED_PORTS": "80,81/listen", "TURNSTILE_WRAPPER": "bwrap {home}", "TURNSTILE_WRAPPER_KILL": "kill {run}",
		"TURNSTILE_SENTINEL_TTL": "1s", "TURNSTILE_PARK_AFTER": "0", "TURNSTILE_PARKED_CAP": "0", "TURNSTILE_DRAIN_TIMEOUT": "0", "TURNSTILE_INTERRUPT_GRACE": "0s", "TURNSTILE_STOP_TIMEOUT": "5s",
		"TURNSTILE_MAX_ATTEMPTS": "1", "TURNSTILE_RETRY_BACKOFF": "2s", "TURNSTILE_RETENTION": "1d12h", "TURNSTILE_BUSY_MODE": "reject",
		"TURNSTILE_FOLLOWUP_CAP": "5", "TURNSTILE_SWEEP_INTERVAL": "2s", "TURNSTILE_RECOVERY_RATE": "0.5",
		"TURNSTILE_FOLLOWUP_DROP": "summarize", "TURNSTILE_COLLECT_WINDOW": "3s",
		"TURNSTILE_CRASH_POLICY": "suspend", "TURNSTILE_STUCK_LIMIT": "5",
		"TURNSTILE_MESSAGE_MAX_AGE": "15h", "TURNSTILE_TRANSCRIPT_TTL": "2d", "TURNSTILE_SESSION_TTL": "3d",
		"TURNSTILE_MESSAGE_BYTES": "1026",
		"TURNSTILE_LINE_CAP":      "6", "TURNSTILE_MESSAGES_CAP": "7", "TURNSTILE_OUTBOX_CAP": "8", "TURNSTILE_DESTINATION_CAP": "12", "TURNSTILE_IDEMPOTENCY_TTL": "2h", "TURNSTILE_TRANSCRIPT_BYTES": "1048576",
		"TURNSTILE_EVENTS_BYTES": "65536", "TURNSTILE_ARCHIVE_TTL": "4d", "TURNSTILE_HTTP_ADDR": ":8080", "TURNSTILE_HTTP_TOKEN": "secret",
		"TURNSTILE_DASHBOARD_WRITE": "true", "TURNSTILE_DELIVER": "true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE": "/d",
		"TURNSTILE_LOG_LEVEL": "debug", "TURNSTILE_LOG_FORMAT": "json",
	}
	want := Worker{
		RedisURL: "redis-cluster://a,b", Concurrency: 3,
		AgentSettings: AgentSettings{
			Agent: AgentExec, Command: Command{"sh", "-c", `cat; echo "$X"`}, AgentEnv: Names{"A", "B_*"},
			AgentFormat: FormatJSONL, AgentTimeout: time.Hour, Approvers: Approvers{"sender", "ops/*"},
			Provider: ProviderOpenAI, Model: "m", ModelURL: "http://127.0.0.1:1/v1", ModelKey: "k", ModelFile: "/p", ToolsFile: "/t", MCPFile: "/m", Instruct: true,
			ACPPermissions: PermissionsDeny, ACPMode: "plan", WorkspaceDir: "/w", WorkspaceGroup: Group{new(2000)}, ACPFiles: true, ACPTerminal: true,
			Isolation: "wrapper", ConfinedPorts: Ports{Connect: []int{80, 81}, Listen: []int{81}}, Wrapper: Command{"bwrap", "{home}"}, WrapperKill: Command{"kill", "{run}"},
		},
		AgentsFile: agentsFile, Pool: Names{"acme", "default"}, WarmTTL: time.Minute,
		Agents: []NamedAgent{{
			Name: "acme", Sessions: []string{"acme:*"},
			AgentSettings: AgentSettings{
				Agent: AgentEcho, AgentFormat: FormatText, AgentTimeout: 10 * time.Minute, AskTimeout: 5 * time.Minute,
				Provider: ProviderOpenAI, ModelURL: "not this", ModelKey: "not this", ACPPermissions: PermissionsAsk,
				Isolation: "none", ConfinedPorts: Ports{Connect: []int{443}},
			},
		}},
		SentinelTTL: time.Second, StopTimeout: 5 * time.Second,
		MaxAttempts: 1, RetryBackoff: 2 * time.Second, Retention: 36 * time.Hour, BusyMode: session.ModeReject,
		FollowupCap: 5, SweepInterval: 2 * time.Second, RecoveryRate: 0.5,
		FollowupDrop: session.DropSummarize, CollectWindow: 3 * time.Second,
		CrashPolicy: CrashSuspend, StuckLimit: 5,
		MessageMaxAge: 15 * time.Hour, TranscriptTTL: 2 * day, SessionTTL: 3 * day,
		Stored:          Stored{MessageBytes: 1026, LineCap: 6, MessagesCap: 7, OutboxCap: 8, DestinationCap: 12, IdempotencyTTL: 2 * time.Hour},
		TranscriptBytes: 1 << 20,
		EventsBytes:     65536, ArchiveTTL: 4 * day, HTTPAddr: ":8080", HTTPToken: "secret",
		DashboardWrite: true, Deliver: true, DestinationsFile: "/d", TokensFile: "/tokens", LogLevel: slog.LevelDebug, LogFormat: LogJSON, RedisURLSet: true,
	}
	got, err := LoadWorker(with(vars), Options{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	vars["TURNSTILE_CONFINED_READ"] = "" // it does not go together with a wrapper
	vars["TURNSTILE_ASK_TOOLS"] = ""     // only for claude
	vars["TURNSTILE_USER_COMMANDS"] = "" // not for exec
	for _, s := range WorkerSettings() {
		if _, ok := vars[s.Name]; !ok {
			t.Errorf("this test forgets %s", s.Name)
		}
	}
	for name := range vars {
		vars[name] = ""
	}
	vars["TURNSTILE_AGENT"] = "echo"
	empty, err := LoadWorker(with(vars), Options{})
	unset, _ := LoadWorker(with(nil), Options{})
	if err != nil || !reflect.DeepEqual(empty, unset) {
		t.Errorf("all empty: %+v, %v", empty, err)
	}
}

// If unset, the numbers are that of turns. 0 means none.
func TestAgentsFollowConcurrency(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{"": 3, "0": 0, "7": 7} {
		w, err := LoadWorker(with(map[string]string{"TURNSTILE_CONCURRENCY": "3", "TURNSTILE_WARM_AGENTS": given, "TURNSTILE_WAITING_AGENTS": given}), Options{})
		if err != nil || w.WarmAgents != want || w.WaitingAgents != want {
			t.Errorf("%q: %d and %d, %v; want %d", given, w.WarmAgents, w.WaitingAgents, err, want)
		}
	}
}

func TestOverridesAndDefaults(t *testing.T) {
	t.Parallel()
	environ := []string{"TURNSTILE_CONCURRENCY=3", "TURNSTILE_HTTP_ADDR=127.0.0.1:1"}
	o := Options{Defaults: DevDefaults(), Overrides: map[string]string{"TURNSTILE_CONCURRENCY": "4"}}
	w, err := LoadWorker(environ, o)
	if err != nil {
		t.Fatal(err)
	}
	if w.Concurrency != 4 || w.Agent != AgentEcho || w.HTTPAddr != "127.0.0.1:1" || w.RedisURLSet {
		t.Errorf("%+v", w)
	}
	o.Overrides["TURNSTILE_CONCURRENCY"] = "x"
	o.Overrides["TURNSTILE_HTTP_ADDR"] = ""
	w, err = LoadWorker(environ, o)
	if err == nil || !strings.Contains(err.Error(), `TURNSTILE_CONCURRENCY="x"`) || w.HTTPAddr != "127.0.0.1:8080" {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := LoadWorker(nil, Options{NoAgent: true}); err != nil {
		t.Errorf("without a need for an agent: %v", err)
	}
}

func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	type vars = map[string]string
	for _, c := range []struct {
		vars vars
		want string // part of the only line
	}{
		{vars{"TURNSTILE_AGENT": ""}, "TURNSTILE_AGENT=\"\" is not set: use one of echo, exec, acp, model, claude, codex and gemini"},
		{vars{"TURNSTILE_AGENT": "claud"}, `TURNSTILE_AGENT="claud" is unknown: use echo, exec, acp, model, claude, codex or gemini`},
		{vars{"TURNSTILE_AGENT": "openai"}, `TURNSTILE_AGENT="openai" is called model now`},
		{vars{"TURNSTILE_OPENAI_BASE_URL": "http://x/v1"}, `TURNSTILE_OPENAI_BASE_URL is unknown: it is called TURNSTILE_MODEL_URL now`},
		{vars{"TURNSTILE_OPENAI_API_KEY": "k"}, `TURNSTILE_OPENAI_API_KEY is unknown: it is called TURNSTILE_MODEL_KEY now`},
		{vars{"TURNSTILE_OPENAI_API_KEY_FILE": "/k"}, `TURNSTILE_OPENAI_API_KEY_FILE is unknown: it is called TURNSTILE_MODEL_KEY_FILE now`},
		{vars{"TURNSTILE_OPENAI_FILE": "/f"}, `TURNSTILE_OPENAI_FILE is unknown: it is called TURNSTILE_MODEL_FILE now`},
		{vars{"TURNSTILE_TOOL_ROUNDS": "9"}, `TURNSTILE_TOOL_ROUNDS is unknown: it is called tool_rounds in TURNSTILE_MODEL_FILE now`},
		{vars{"TURNSTILE_AGENT": "model", "TURNSTILE_MODEL": "m", "TURNSTILE_PROVIDER": "gemini"}, `TURNSTILE_PROVIDER="gemini" is unknown: use openai or anthropic`},
		{vars{"TURNSTILE_AGENT": "acp"}, `TURNSTILE_AGENT_COMMAND is not set: TURNSTILE_AGENT=acp needs the command`},
		{vars{"TURNSTILE_AGENT": "model"}, `TURNSTILE_MODEL="" is not set: TURNSTILE_AGENT=model needs the model`},
		{vars{"TURNSTILE_AGENT": "model", "TURNSTILE_MODEL": "m", "OPENAI_BASE_URL": "localhost:1"}, `TURNSTILE_MODEL_URL="localhost:1" is no address: write it as https://api.openai.com/v1`},
		{vars{"TURNSTILE_AGENT": "model", "TURNSTILE_MODEL": "m", "TURNSTILE_PROVIDER": "anthropic", "ANTHROPIC_BASE_URL": "localhost:1"}, `TURNSTILE_MODEL_URL="localhost:1" is no address: write it as https://api.anthropic.com`},
		{vars{"TURNSTILE_ACP_PERMISSIONS": "yes"}, `TURNSTILE_ACP_PERMISSIONS="yes" is unknown: use allow, deny or ask`},
		{vars{"TURNSTILE_WORKSPACE_GROUP": "2000"}, `TURNSTILE_WORKSPACE_GROUP="2000" needs TURNSTILE_WORKSPACE_DIR`},
		{vars{"TURNSTILE_WORKSPACE_GROUP": "staff"}, `TURNSTILE_WORKSPACE_GROUP="staff" is not the number of a group: write it as 2000`},
		{vars{"TURNSTILE_WORKSPACE_GROUP": "-1"}, `TURNSTILE_WORKSPACE_GROUP="-1" is not the number of a group`},
		{vars{"TURNSTILE_ISOLATION": "confined"}, `TURNSTILE_ISOLATION="confined" needs TURNSTILE_WORKSPACE_DIR`},
		{vars{"TURNSTILE_ISOLATION": "tight"}, `TURNSTILE_ISOLATION="tight" is unknown: use none, confined or wrapper`},
		{vars{"TURNSTILE_WRAPPER": "bwrap"}, `TURNSTILE_WRAPPER is read only with TURNSTILE_ISOLATION=wrapper`},
		{vars{"TURNSTILE_WRAPPER_KILL": "docker rm {run}"}, `TURNSTILE_WRAPPER_KILL is read only with TURNSTILE_ISOLATION=wrapper`},
		{vars{"TURNSTILE_CONFINED_READ": "/opt"}, `TURNSTILE_CONFINED_READ="/opt" is read only with TURNSTILE_ISOLATION=confined`},
		{vars{"TURNSTILE_CONFINED_READ": "opt"}, `TURNSTILE_CONFINED_READ="opt" is not a list of absolute paths`},
		{vars{"TURNSTILE_CONFINED_PORTS": "443,https"}, `TURNSTILE_CONFINED_PORTS="443,https" is not a list of ports`},
		{vars{"TURNSTILE_CONFINED_PORTS": "0"}, `TURNSTILE_CONFINED_PORTS="0" is not a list of ports`},
		{vars{"TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WORKSPACE_DIR": "/w"}, `TURNSTILE_WRAPPER is not set: TURNSTILE_ISOLATION=wrapper needs the command`},
		{vars{"TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WORKSPACE_DIR": "/w", "TURNSTILE_WRAPPER": "bwrap {worksapce}"}, `TURNSTILE_WRAPPER has the unknown placeholder {worksapce}: use {workspace}`},
		{vars{"TURNSTILE_ACP_FILES": "true"}, `TURNSTILE_ACP_FILES="true" needs TURNSTILE_WORKSPACE_DIR`},
		{vars{"TURNSTILE_ACP_TERMINAL": "true"}, `TURNSTILE_ACP_TERMINAL="true" needs TURNSTILE_WORKSPACE_DIR`},
		{vars{"TURNSTILE_AGENT": "exec"}, "TURNSTILE_AGENT_COMMAND is not set"},
		{vars{"TURNSTILE_AGENT_COMMAND": "hunter2 'x"}, "TURNSTILE_AGENT_COMMAND does not split into words: a single quote"},
		{vars{"TURNSTILE_AGENT_COMMAND": "hunter2 | x"}, "must be quoted"},
		{vars{"TURNSTILE_AGENT_ENV": "A,REDIS_URL"}, "names REDIS_URL"},
		{vars{"TURNSTILE_AGENT_ENV": "TURNSTILE_*"}, "names TURNSTILE_*"},
		{vars{"TURNSTILE_AGENT_ENV": "A=B"}, "without values"},
		{vars{"TURNSTILE_AGENT_ENV": "A*B"}, "is not a list of names"},
		{vars{"TURNSTILE_AGENT_ENV": "A,-HOME"}, "is not a list of names"},
		{vars{"TURNSTILE_AGENT_FORMAT": "xml"}, "use text or jsonl"},
		{vars{"TURNSTILE_AGENT_TIMEOUT": "0"}, "at least 1ms"},
		{vars{"TURNSTILE_ASK_TIMEOUT": "-1s"}, "use 0 or more"},
		{vars{"TURNSTILE_ASK_TIMEOUT": "5"}, "is not a duration"},
		{vars{"TURNSTILE_AGENT_TIMEOUT": "60d"}, "TURNSTILE_SESSION_TTL"},
		{vars{"REDIS_URL": "redis://:hunter2@"}, "REDIS_URL cannot be used: malformed Redis URL: a host is missing"},
		{vars{"TURNSTILE_CONCURRENCY": "0"}, "at least 1"},
		{vars{"TURNSTILE_CONCURRENCY": "10001"}, "at most 10000"},
		{vars{"TURNSTILE_CONCURRENCY": "many"}, "not a whole number"},
		{vars{"TURNSTILE_CONCURRENCY": "99999999999999999999"}, "too large"},
		{vars{"TURNSTILE_WARM_AGENTS": "-1"}, "use 0 or more"},
		{vars{"TURNSTILE_ASK_TOOLS": "Bash"}, "is read only with TURNSTILE_AGENT=claude"},
		{vars{"TURNSTILE_USER_COMMANDS": "compact"}, "is read only with TURNSTILE_AGENT=acp, claude or gemini"},
		{vars{"TURNSTILE_AGENT": "claude", "TURNSTILE_USER_COMMANDS": "review,/compact"}, "without the slash"},
		{vars{"TURNSTILE_WAITING_AGENTS": "-1"}, "use 0 or more"},
		{vars{"TURNSTILE_WARM_AGENTS": "10001"}, "at most 10000"},
		{vars{"TURNSTILE_WARM_AGENTS": "all"}, "not a whole number"},
		{vars{"TURNSTILE_WARM_TTL": "0"}, "at least 1s"},
		{vars{"TURNSTILE_SENTINEL_TTL": "999ms"}, "at least 1s"},
		{vars{"TURNSTILE_SENTINEL_TTL": "15"}, `TURNSTILE_SENTINEL_TTL="15" is not a duration: write it as`},
		{vars{"TURNSTILE_DRAIN_TIMEOUT": "-1s"}, "use 0 or more"},
		{vars{"TURNSTILE_INTERRUPT_GRACE": "-1s"}, "use 0 or more"},
		{vars{"TURNSTILE_STOP_TIMEOUT": "69s"}, "need 1m10s"},
		{vars{"TURNSTILE_STOP_TIMEOUT": "-1s"}, "use 0 or more"},
		{vars{"TURNSTILE_MAX_ATTEMPTS": "0"}, "at least 1"},
		{vars{"TURNSTILE_RETRY_BACKOFF": "0"}, "at least 1ms"},
		{vars{"TURNSTILE_RETENTION": "999ms"}, "use 0 or at least 1s"},
		{vars{"TURNSTILE_RETENTION": "-1h"}, "use 0 or at least 1s"},
		{vars{"TURNSTILE_BUSY_MODE": "steal"}, "use queue, collect, steer, interrupt, rollback or reject"},
		{vars{"TURNSTILE_FOLLOWUP_CAP": "0"}, "at least 1"},
		{vars{"TURNSTILE_SWEEP_INTERVAL": "1ms"}, "at least 100ms"},
		{vars{"TURNSTILE_RECOVERY_RATE": "0"}, "above 0"},
		{vars{"TURNSTILE_RECOVERY_RATE": "NaN"}, "is not a rate"},
		{vars{"TURNSTILE_RECOVERY_RATE": "50/m"}, "is not a rate"},
		{vars{"TURNSTILE_MESSAGE_MAX_AGE": "-1s"}, "use 0 or more"},
		{vars{"TURNSTILE_TRANSCRIPT_TTL": "1m"}, "longer than TURNSTILE_AGENT_TIMEOUT (10m0s)"},
		{vars{"TURNSTILE_SESSION_TTL": "10m"}, "longer than TURNSTILE_AGENT_TIMEOUT (10m0s)"},
		{vars{"TURNSTILE_MESSAGE_BYTES": "1023"}, "at least 1024"},
		{vars{"TURNSTILE_MESSAGE_BYTES": "67108865"}, "at most 67108864"},
		{vars{"TURNSTILE_MESSAGE_TEXT_BYTES": "1024"}, "TURNSTILE_MESSAGE_TEXT_BYTES is unknown: did you mean TURNSTILE_MESSAGE_BYTES?"},
		{vars{"TURNSTILE_LINE_CAP": "99"}, "at least TURNSTILE_FOLLOWUP_CAP (100)"},
		{vars{"TURNSTILE_MESSAGES_CAP": "-1"}, "use 0 or more"},
		{vars{"TURNSTILE_OUTBOX_CAP": "0"}, "at least 1"},
		{vars{"TURNSTILE_DESTINATION_CAP": "-1"}, "0 or more"},
		{vars{"TURNSTILE_IDEMPOTENCY_TTL": "59s"}, "1m0s"},
		{vars{"TURNSTILE_IDEMPOTENCY_TTL": "-1h"}, "1m0s"},
		{vars{"TURNSTILE_IDEMPOTENCY_TTL": "400d"}, "8784h"},
		{vars{"TURNSTILE_TRANSCRIPT_BYTES": "1048575"}, "at least 1048576"},
		{vars{"TURNSTILE_EVENTS_BYTES": "65535"}, "at least 65536"},
		{vars{"TURNSTILE_ARCHIVE_TTL": "0"}, "at least 1s"},
		{vars{"TURNSTILE_HTTP_ADDR": "8080"}, "127.0.0.1:8080"},
		{vars{"TURNSTILE_HTTP_ADDR": ":8080"}, "set TURNSTILE_HTTP_TOKEN"},
		{vars{"TURNSTILE_HTTP_TOKEN": "hunter2 x"}, "printable ASCII"},
		{vars{"TURNSTILE_DASHBOARD_WRITE": "maybe"}, "neither true nor false"},
		{vars{"TURNSTILE_DELIVER": "true"}, `TURNSTILE_DELIVER="true" needs TURNSTILE_GATEWAY_DESTINATIONS_FILE`},
		{vars{"TURNSTILE_LOG_LEVEL": "loud"}, "use debug, info, warn or error"},
		{vars{"TURNSTILE_LOG_FORMAT": "xml"}, "use text or json"},
		{vars{"TURNSTILE_CONCURENCY": "3"}, "TURNSTILE_CONCURENCY is unknown: did you mean TURNSTILE_CONCURRENCY?"},
		{vars{"TURNSTILE_AGENT_CMD": "hunter2"}, "did you mean TURNSTILE_AGENT"},
		{vars{"TURNSTILE_NOTHING_LIKE_IT": "hunter2"}, "unset it"},
	} {
		_, err := LoadWorker(with(c.vars), Options{})
		got := lines(t, err)
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, c.want) }) {
			t.Errorf("%v: %q; want %q", c.vars, got, c.want)
		}
		if len(got) > 1 && c.vars["TURNSTILE_AGENT_TIMEOUT"] == "" {
			t.Errorf("%v: %d problems, want one: %q", c.vars, len(got), got)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: a secret is in %q", c.vars, err)
		}
	}
}

// The examples and the docs set these in a shell in which a worker or a gateway may start.
func TestVariablesOfClients(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"TURNSTILE_TOKEN": "t", "TURNSTILE_URL": "http://127.0.0.1:8081", "TURNSTILE_GATEWAY_URL": "http://127.0.0.1:8081"}
	_, worker := LoadWorker(with(vars), Options{})
	_, gateway := LoadGateway(with(vars), Options{})
	_, sender := LoadSender(with(vars), Options{})
	if worker != nil || gateway != nil || sender != nil {
		t.Error(worker, gateway, sender)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := LoadWorker(with(map[string]string{
		"REDIS_URL": "localhost", "TURNSTILE_CONCURRENCY": "x", "TURNSTILE_SENTINEL_TTL": "0", "TURNSTILE_STOP_TIMEOUT": "1s",
		"TURNSTILE_LOG_LEVEL": "x", "TURNSTILE_TYPO": "1", "TURNSTILE_DRAIN_TIMEOUT": "soon", "TURNSTILE_HTTP_ADDR": "x",
	}), Options{})
	got := lines(t, err)
	// The drain's length is unknown, so its relation to the stop timeout is not checked.
	if len(got) != 7 {
		t.Errorf("%d problems: %q", len(got), got)
	}
}

func TestSender(t *testing.T) {
	t.Parallel()
	// A sender ignores the settings of workers and agents.
	environ := []string{"TURNSTILE_CONCURRENCY=x", "TURNSTILE_SESSION=s", "TURNSTILE_TURN_ID=t", "TURNSTILE_STEP_KEY=k", "TURNSTILE_RETENTION=2h", "TURNSTILE_LOG_FORMAT=json"}
	s, err := LoadSender(environ, Options{})
	want := Sender{
		RedisURL: "redis://127.0.0.1:6379/0", Retention: 2 * time.Hour, LogFormat: LogJSON,
		Stored: Stored{MessageBytes: 2 << 20, LineCap: 10_000, OutboxCap: 1000, DestinationCap: 1_000_000, IdempotencyTTL: day},
	}
	if err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = LoadSender([]string{"REDIS_URL=x", "TURNSTILE_RETENTION=x", "TURNSTILE_RETENTON=1h", "TURNSTILE_OUTBOX_CAP=0", "TURNSTILE_IDEMPOTENCY_TTL=1s"}, Options{})
	if got := lines(t, err); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "30d": 30 * day, "1d12h": 36 * time.Hour, "-1s": -time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "5", "-1d", "1d-1h", "1d+1h", "1dd", "1.5d", "99999d", "65535d2562047h"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestRunsPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    AgentSettings
		want bool
	}{
		{AgentSettings{Agent: AgentEcho, ToolsFile: "/t"}, false},
		{AgentSettings{Agent: AgentModel}, false},
		{AgentSettings{Agent: AgentModel, ToolsFile: "/t"}, true},
		{AgentSettings{Agent: AgentModel, MCPFile: "/m"}, true},
		{AgentSettings{Agent: AgentExec}, true},
		{AgentSettings{Agent: AgentACP}, true},
		{AgentSettings{Agent: AgentClaude}, true},
		{AgentSettings{Agent: AgentCodex}, true},
		{AgentSettings{Agent: AgentGemini}, true},
		{AgentSettings{}, true}, // an unknown agent
	} {
		if got := c.a.RunsPrograms(); got != c.want {
			t.Errorf("%q with tools %q and servers %q: %v", c.a.Agent, c.a.ToolsFile, c.a.MCPFile, got)
		}
	}
}

package main

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"turnstile/internal/program/config"
	"turnstile/internal/program/service"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// other has for each setting a value that is not its default.
var other = map[string]string{
	"TURNSTILE_CONCURRENCY": "3", "TURNSTILE_AGENT_COMMAND": "cat -", "TURNSTILE_AGENT_ENV": "A,B_*",
	"TURNSTILE_AGENT_FORMAT": "jsonl", "TURNSTILE_AGENT_TIMEOUT": "4m", "TURNSTILE_ASK_TIMEOUT": "35s", "TURNSTILE_PARK_AFTER": "36s", "TURNSTILE_PARKED_CAP": "37", "TURNSTILE_WAITING_AGENTS": "37", "TURNSTILE_APPROVERS": "ops/*", "TURNSTILE_SENTINEL_TTL": "5s",
	"TURNSTILE_DRAIN_TIMEOUT": "6s", "TURNSTILE_INTERRUPT_GRACE": "7s", "TURNSTILE_MAX_ATTEMPTS": "8",
	"TURNSTILE_RETRY_BACKOFF": "9s", "TURNSTILE_RETENTION": "10s", "TURNSTILE_BUSY_MODE": "reject",
	"TURNSTILE_FOLLOWUP_CAP": "11", "TURNSTILE_SWEEP_INTERVAL": "12s", "TURNSTILE_RECOVERY_RATE": "0.5",
	"TURNSTILE_MESSAGE_MAX_AGE": "15s",
	"TURNSTILE_TRANSCRIPT_TTL":  "17h", "TURNSTILE_SESSION_TTL": "18h", "TURNSTILE_EVENTS_BYTES": "190000",
	"TURNSTILE_ARCHIVE_TTL": "20h", "TURNSTILE_HTTP_ADDR": "127.0.0.1:21", "TURNSTILE_HTTP_TOKEN": "t22",
	"TURNSTILE_DASHBOARD_WRITE": "true", "TURNSTILE_WARM_AGENTS": "25", "TURNSTILE_WARM_TTL": "26s", "TURNSTILE_STUCK_LIMIT": "21", "TURNSTILE_CRASH_POLICY": "suspend",
	"TURNSTILE_COLLECT_WINDOW": "22s", "TURNSTILE_FOLLOWUP_DROP": "old",
	"TURNSTILE_MESSAGE_BYTES": "3800000", "TURNSTILE_LINE_CAP": "390", "TURNSTILE_MESSAGES_CAP": "40", "TURNSTILE_OUTBOX_CAP": "42", "TURNSTILE_DESTINATION_CAP": "43",
	"TURNSTILE_TRANSCRIPT_BYTES": "4100000", "TURNSTILE_IDEMPOTENCY_TTL": "41h",
	"TURNSTILE_PROVIDER": "anthropic", "TURNSTILE_MODEL": "m27", "TURNSTILE_MODEL_URL": "http://127.0.0.1:28/v1", "TURNSTILE_MODEL_KEY": "k29",
	"TURNSTILE_INSTRUCT": "true", "TURNSTILE_ACP_PERMISSIONS": "deny", "TURNSTILE_ACP_MODE": "plan33", "TURNSTILE_WORKSPACE_DIR": "/w34",
}

// elsewhere are settings that are no option of a part. Other tests here cover them; the last one is
// only checked.
var elsewhere = []string{
	"REDIS_URL", "TURNSTILE_AGENT", "TURNSTILE_LOG_LEVEL", "TURNSTILE_LOG_FORMAT", "TURNSTILE_STOP_TIMEOUT",
	"TURNSTILE_MODEL_FILE", "TURNSTILE_TOOLS_FILE", "TURNSTILE_MCP_FILE", "TURNSTILE_ACP_FILES", "TURNSTILE_ACP_TERMINAL", "TURNSTILE_ASK_TOOLS", "TURNSTILE_USER_COMMANDS", "TURNSTILE_WORKSPACE_GROUP",
	"TURNSTILE_AGENTS", "TURNSTILE_AGENTS_FILE", "TURNSTILE_GATEWAY_TOKENS_FILE", "TURNSTILE_DELIVER", "TURNSTILE_GATEWAY_DESTINATIONS_FILE",
	"TURNSTILE_ISOLATION", "TURNSTILE_CONFINED_READ", "TURNSTILE_CONFINED_PORTS", "TURNSTILE_WRAPPER", "TURNSTILE_WRAPPER_KILL",
}

func load(t *testing.T, vars map[string]string) config.Worker {
	t.Helper()
	s, err := config.LoadWorker([]string{"TURNSTILE_AGENT=echo"}, config.Options{Overrides: vars})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A setting that reaches no part would be silently ignored.
func TestEverySettingReachesAPart(t *testing.T) {
	t.Parallel()
	parts := func(vars map[string]string) string {
		s := load(t, vars)
		h := service.HTTPConfig(s, nil, nil, nil)
		return fmt.Sprintf("%+v\n%+v\n%+v\n%+v\n%+v\n%v %v %v %v", clientConfig(s), service.WorkerConfig(s, nil), execConfig(s, nil), acpConfig(s, nil), presetConfig(s, nil), modelConfig(s, nil), h.Addr, h.Token, h.Write)
	}
	usual := parts(nil)
	for _, s := range config.WorkerSettings() {
		if slices.Contains(elsewhere, s.Name) {
			continue
		}
		value, ok := other[s.Name]
		if !ok {
			t.Errorf("%s: this test knows no value", s.Name)
		} else if parts(map[string]string{s.Name: value}) == usual {
			t.Errorf("%s reaches nothing", s.Name)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	s, log := load(t, other), slog.New(slog.DiscardHandler)
	want := worker.Config{
		AgentName: "echo", Concurrency: 3,
		Queue:  session.QueueSettings{Mode: "reject", Cap: 11, Debounce: session.Millis(22 * time.Second), Drop: "old"},
		Limits: session.Limits{MessageBytes: 3_800_000, Queue: 390, AllQueues: 40, Outbox: 42, Destination: 43},
		Keep: worker.Keep{
			Results: 10 * time.Second, Transcripts: 17 * time.Hour, Sessions: 18 * time.Hour, DeadLetters: 20 * time.Hour,
			TranscriptBytes: 4_100_000, EventBytes: 190_000,
		},
		LeaseTTL: 5 * time.Second, AgentTimeout: 4 * time.Minute, AskTimeout: 35 * time.Second, ParkAfter: 36 * time.Second, ParkedCap: 37, WaitingAgents: 37, Approvers: []string{"ops/*"}, DrainTimeout: 6 * time.Second, MaxAttempts: 8,
		RetryBackoff: 9 * time.Second, MessageMaxAge: 15 * time.Second, StuckLimit: 21, Crash: worker.CrashSuspend, SweepInterval: 12 * time.Second,
		RecoveryRate: 0.5, WarmAgents: 25, WarmTTL: 26 * time.Second, Logger: log,
	}
	got := service.WorkerConfig(s, log)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	zero(t, reflect.ValueOf(got), "Name", "RunsPrograms", "Ephemeral", "Observer", "Tracer", "Agents", "Settings") // echo runs no programs; agents by name and what must be the same are given elsewhere
	zero(t, reflect.ValueOf(got.Keep))
	s.Agent = config.AgentExec
	expect.Equal(t, "exec runs programs", service.WorkerConfig(s, log).RunsPrograms, true)
	wantExec := exec.Config{
		Command: []string{"cat", "-"}, Format: exec.JSONL, Env: []string{"A", "B_*"}, Grace: 7 * time.Second, Logger: log,
		Isolation: agent.Isolation{Level: agent.IsolationNone, Workspace: "/w34", Ports: []int{443}},
	}
	if got := execConfig(s, log); !reflect.DeepEqual(got, wantExec) {
		t.Errorf("got  %+v\nwant %+v", got, wantExec)
	}
}

func TestUserCommands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "acp"} {
		s := load(t, map[string]string{"TURNSTILE_AGENT": name, "TURNSTILE_AGENT_COMMAND": "a", "TURNSTILE_USER_COMMANDS": "compact, review"})
		expect.List(t, "claude's", presetConfig(s, nil).Commands, "compact", "review")
		expect.List(t, "acp's", acpConfig(s, nil).Commands, "compact", "review")
	}
}

func TestAskTools(t *testing.T) {
	t.Parallel()
	got := presetConfig(load(t, map[string]string{"TURNSTILE_AGENT": "claude", "TURNSTILE_ASK_TOOLS": "Bash, mcp__*"}), nil).Ask
	expect.List(t, "tools", got, "Bash", "mcp__*")
}

// An agent's isolation reaches whatever starts programs, with the agent's name.
func TestIsolationReachesEveryAdapter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		vars map[string]string
		want agent.Isolation
	}{
		{
			map[string]string{"TURNSTILE_ISOLATION": "confined", "TURNSTILE_CONFINED_READ": "/opt/node:/srv", "TURNSTILE_CONFINED_PORTS": "443, 4096/listen"},
			agent.Isolation{Level: agent.IsolationConfined, Read: []string{"/opt/node", "/srv"}, Ports: []int{443, 4096}, Listen: []int{4096}},
		},
		{
			map[string]string{"TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WRAPPER": "docker run {run}", "TURNSTILE_WRAPPER_KILL": "docker rm -f {run}"},
			agent.Isolation{Level: agent.IsolationWrapper, Ports: []int{443}, Wrapper: []string{"docker", "run", "{run}"}, Kill: []string{"docker", "rm", "-f", "{run}"}},
		},
	} {
		c.vars["TURNSTILE_WORKSPACE_DIR"] = "/w"
		s := load(t, c.vars).As(config.NamedAgent{AgentSettings: load(t, c.vars).AgentSettings, Name: "coder"})
		c.want.Agent, c.want.Workspace = "coder", "/w"
		for _, got := range []agent.Isolation{execConfig(s, nil).Isolation, acpConfig(s, nil).Isolation, presetConfig(s, nil).Isolation, modelConfig(s, nil).Isolation} {
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		}
	}
}

// zero fails for fields that are not set.
func zero(t *testing.T, v reflect.Value, but ...string) {
	t.Helper()
	for field, value := range v.Fields() {
		if field.IsExported() && value.IsZero() && !slices.Contains(but, field.Name) {
			t.Errorf("%s.%s is not set", v.Type(), field.Name)
		}
	}
}

// In the worker's config 0 means the default. Without warm agents an agent keeps its other traits.
func TestNoWarmAgents(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"acp", "exec", "echo"} {
		s := load(t, map[string]string{"TURNSTILE_WARM_AGENTS": "0", "TURNSTILE_AGENT": kind, "TURNSTILE_AGENT_COMMAND": "cat"})
		a, err := newAgent(s, slog.New(slog.DiscardHandler))
		expect.OK(t, err)
		cold := service.Agent(s, a)
		if _, ok := cold.(agent.Warmer); ok {
			t.Errorf("%s is kept warm", kind)
		}
		expect.Equal(t, kind+"'s traits", traits(cold), traits(a))
		s.WarmAgents = 1
		expect.Equal(t, kind, service.Agent(s, a), a)
	}
}

// traits returns an agent's traits.
func traits(a agent.Agent) (t agent.Traits) {
	if d, ok := a.(agent.Describer); ok {
		t = d.Traits()
	}
	return t
}

// For these, too, 0 does not mean the default.
func TestZeroSettings(t *testing.T) {
	t.Parallel()
	c := service.WorkerConfig(load(t, map[string]string{"TURNSTILE_ASK_TIMEOUT": "0", "TURNSTILE_DRAIN_TIMEOUT": "0", "TURNSTILE_RETENTION": "0"}), nil)
	expect.Equal(t, "ask timeout", c.AskTimeout, session.NoLimit)
	if c.DrainTimeout <= 0 || c.DrainTimeout > time.Millisecond || c.Keep.Results <= 0 || c.Keep.Results >= time.Second {
		t.Errorf("a drain timeout of %s, results for %s", c.DrainTimeout, c.Keep.Results)
	}
}

// In the agent's options 0 means the default.
func TestNoInterruptGrace(t *testing.T) {
	t.Parallel()
	if c := execConfig(load(t, map[string]string{"TURNSTILE_INTERRUPT_GRACE": "0"}), nil); c.Grace >= 0 {
		t.Errorf("grace %v", c.Grace)
	}
}

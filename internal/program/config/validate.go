package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/process/command"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/text/printable"
	"turnstile/pkg/agent"
)

// stopMargin is the time after its drain that a worker needs to mark, requeue and release its
// turns.
const stopMargin = 5 * time.Second

// problems collects the errors in the settings.
type problems struct {
	settings []Setting
	vars     map[string]string
	failed   map[string]bool // variables with a problem; each gets only one
	list     []error
}

func (p *problems) err() error { return errors.Join(p.list...) }

// add records that name's value is invalid. The text continues a sentence that begins with the
// value.
func (p *problems) add(name, format string, args ...any) {
	if p.failed[name] {
		return
	}
	p.failed[name] = true
	value := ""
	for _, s := range p.settings {
		if v := p.vars[name]; s.Name == name && !s.Secret {
			if v == "" {
				v = s.Default
			}
			value = "=" + strconv.Quote(v)
		}
	}
	p.list = append(p.list, fmt.Errorf("%w %s%s %s", ErrInvalid, name, value, fmt.Sprintf(format, args...)))
}

// addAll records each line of an error about name's value.
func (p *problems) addAll(name string, err error) {
	for line := range strings.Lines(err.Error()) {
		p.list = append(p.list, fmt.Errorf("%w %s: %s", ErrInvalid, name, strings.TrimSpace(line)))
	}
}

// FileProblem returns an error about a setting's file on one line. If the file could not be read, it says what to do.
func FileProblem(err error) error {
	var unread *fs.PathError
	if !errors.As(err, &unread) {
		return err
	}
	return errors.New(printable.Line(err.Error()) + ": correct the path, or let the program read it")
}

// ok reports whether none of the names has a problem so far. Only then can a relation between them
// be checked.
func (p *problems) ok(names ...string) bool {
	for _, name := range names {
		if p.failed[name] {
			return false
		}
	}
	return true
}

// atLeast and within check one number.
func atLeast[T int | time.Duration](p *problems, name string, value, least T) {
	switch {
	case !p.ok(name) || value >= least:
	case least == 0:
		p.add(name, "is too small: use 0 or more")
	default:
		p.add(name, "is too small: use at least %v", least)
	}
}

func within[T int | time.Duration](p *problems, name string, value, least, most T) {
	atLeast(p, name, value, least)
	if p.ok(name) && value > most {
		p.add(name, "is too large: use at most %v", most)
	}
}

func (p *problems) judgeRedisURL(url string) {
	if err := redisconn.ValidateURL(url); err != nil {
		p.add("REDIS_URL", "cannot be used: %v", err)
	}
}

// judgeRetention refuses fractions of a second below the first: asynq counts retention in whole
// seconds.
func (p *problems) judgeRetention(d time.Duration) {
	if p.ok("TURNSTILE_RETENTION") && d != 0 && d < time.Second {
		p.add("TURNSTILE_RETENTION", "is too small: use 0 or at least %v", time.Second)
	}
}

// judgeIdempotency bounds how long message IDs are remembered. It must be longer than a sender's
// retries, but each ID takes memory.
func (p *problems) judgeSender(s Sender) {
	p.judgeRedisURL(s.RedisURL)
	p.judgeRetention(s.Retention)
	p.judgeStored(s.Stored)
}

// judgeStored bounds messages and queues. The largest message must fit into a turn, and many times
// into one request to Redis.
func (p *problems) judgeStored(s Stored) {
	within(p, "TURNSTILE_MESSAGE_BYTES", s.MessageBytes, 1024, 64<<20)
	within(p, "TURNSTILE_LINE_CAP", s.LineCap, 1, 1_000_000)
	atLeast(p, "TURNSTILE_MESSAGES_CAP", s.MessagesCap, 0)
	atLeast(p, "TURNSTILE_OUTBOX_CAP", s.OutboxCap, 1)
	atLeast(p, "TURNSTILE_DESTINATION_CAP", s.DestinationCap, 0)
	within(p, "TURNSTILE_IDEMPOTENCY_TTL", s.IdempotencyTTL, time.Minute, 366*24*time.Hour)
}

func (p *problems) judgeWorker(w Worker, o Options) {
	p.judgeRedisURL(w.RedisURL)
	p.judgeAgents(w, o)
	p.judgeTimes(w)
	p.judgeLimits(w)
	p.judgeHTTP(w)
	p.judgeDeliver(w.Deliver, w.DestinationsFile)
}

func (p *problems) judgeDeliver(deliver bool, destinationsFile string) {
	if deliver && destinationsFile == "" {
		p.add("TURNSTILE_DELIVER", "needs TURNSTILE_GATEWAY_DESTINATIONS_FILE: set the file with the destinations")
	}
}

func (p *problems) judgeAgents(w Worker, o Options) {
	within(p, "TURNSTILE_CONCURRENCY", w.Concurrency, 1, 10_000)
	within(p, "TURNSTILE_WARM_AGENTS", w.WarmAgents, 0, 10_000)
	within(p, "TURNSTILE_WAITING_AGENTS", w.WaitingAgents, 0, 10_000)
	atLeast(p, "TURNSTILE_WARM_TTL", w.WarmTTL, time.Second)
	if o.NoAgent || w.Agent == "" && w.AgentsFile != "" {
		p.failed["TURNSTILE_AGENT"] = true
	}
	p.judgeAgent(w.AgentSettings, ", or start with --dev to try things out")
}

// judgeAgent checks the settings of one agent. hint ends the error of a missing one.
func (p *problems) judgeAgent(a AgentSettings, hint string) {
	if p.ok("TURNSTILE_AGENT") {
		switch {
		case a.Agent == "":
			p.add("TURNSTILE_AGENT", "is not set: use one of echo, exec, acp, model, claude, codex and gemini%s", hint)
		case (a.Agent == AgentExec || a.Agent == AgentACP) && len(a.Command) == 0 && p.ok("TURNSTILE_AGENT_COMMAND"):
			p.add("TURNSTILE_AGENT_COMMAND", "is not set: TURNSTILE_AGENT=%s needs the command to run", a.Agent)
		case a.Agent == AgentModel && a.Model == "":
			p.add("TURNSTILE_MODEL", "is not set: TURNSTILE_AGENT=model needs the model's name")
		}
	}
	for _, name := range a.AgentEnv {
		if name == "REDIS_URL" || name == fileName("REDIS_URL") || strings.HasPrefix(name, prefix) {
			p.add("TURNSTILE_AGENT_ENV", "names %s, which agents must not have: leave it out", name)
		}
	}
	atLeast(p, "TURNSTILE_AGENT_TIMEOUT", a.AgentTimeout, time.Millisecond)
	atLeast(p, "TURNSTILE_ASK_TIMEOUT", a.AskTimeout, 0)
	p.judgeModel(a)
	if len(a.AskTools) > 0 && a.Agent != AgentClaude {
		p.add("TURNSTILE_ASK_TOOLS", "is read only with TURNSTILE_AGENT=claude: leave it out")
	}
	if len(a.UserCommands) > 0 && a.Agent != AgentACP && a.Agent != AgentClaude && a.Agent != AgentGemini {
		p.add("TURNSTILE_USER_COMMANDS", "is read only with TURNSTILE_AGENT=acp, claude or gemini: leave it out")
	}
	for _, name := range a.UserCommands {
		if strings.ContainsAny(name, "/*") {
			p.add("TURNSTILE_USER_COMMANDS", "has %.100q: write whole names without the slash, such as compact,review", name)
		}
	}
	p.judgeNeedsWorkspace("TURNSTILE_WORKSPACE_GROUP", a.WorkspaceGroup.Number != nil, a)
	p.judgeNeedsWorkspace("TURNSTILE_ACP_FILES", a.ACPFiles, a)
	p.judgeNeedsWorkspace("TURNSTILE_ACP_TERMINAL", a.ACPTerminal, a)
	p.judgeIsolation(a)
}

func (p *problems) judgeIsolation(a AgentSettings) {
	if !p.ok("TURNSTILE_ISOLATION") {
		return
	}
	p.judgeNeedsWorkspace("TURNSTILE_ISOLATION", a.Isolation != Isolation(agent.IsolationNone), a)
	wrapped := a.Isolation == Isolation(agent.IsolationWrapper)
	if wrapped && len(a.Wrapper) == 0 && p.ok("TURNSTILE_WRAPPER") {
		p.add("TURNSTILE_WRAPPER", "is not set: TURNSTILE_ISOLATION=wrapper needs the command that starts the agent's programs")
	}
	p.judgeOnlyWith("TURNSTILE_CONFINED_READ", len(a.ConfinedRead) > 0, a, agent.IsolationConfined)
	for name, words := range map[string]Command{"TURNSTILE_WRAPPER": a.Wrapper, "TURNSTILE_WRAPPER_KILL": a.WrapperKill} {
		p.judgeOnlyWith(name, len(words) > 0, a, agent.IsolationWrapper)
		if unknown := command.UnknownPlaceholder(words); unknown != "" {
			p.add(name, "has the unknown placeholder %s: use {workspace}, {home}, {session} or {run}", unknown)
		}
	}
}

// judgeOnlyWith refuses a setting without the isolation that reads it: it would protect nobody.
func (p *problems) judgeOnlyWith(name string, set bool, a AgentSettings, level agent.IsolationLevel) {
	if set && a.Isolation != Isolation(level) {
		p.add(name, "is read only with TURNSTILE_ISOLATION=%s: set that, or leave this one out", level)
	}
}

func (p *problems) judgeNeedsWorkspace(name string, on bool, a AgentSettings) {
	if on && a.WorkspaceDir == "" {
		p.add(name, "needs TURNSTILE_WORKSPACE_DIR: set the directory that agents may use")
	}
}

func (p *problems) judgeModel(a AgentSettings) {
	if u, err := url.Parse(a.ModelURL); a.Agent == AgentModel && p.ok("TURNSTILE_PROVIDER") && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		p.add("TURNSTILE_MODEL_URL", "is no address: write it as %s", providers[a.Provider].url)
	}
}

func (p *problems) judgeTimes(w Worker) {
	within(p, "TURNSTILE_SENTINEL_TTL", w.SentinelTTL, time.Second, time.Hour)
	atLeast(p, "TURNSTILE_DRAIN_TIMEOUT", w.DrainTimeout, 0)
	atLeast(p, "TURNSTILE_PARK_AFTER", w.ParkAfter, 0)
	atLeast(p, "TURNSTILE_INTERRUPT_GRACE", w.InterruptGrace, 0)
	atLeast(p, "TURNSTILE_STOP_TIMEOUT", w.StopTimeout, 0)
	if need := w.DrainTimeout + w.InterruptGrace + stopMargin; w.StopTimeout > 0 && (need > w.StopTimeout || need < w.DrainTimeout) &&
		p.ok("TURNSTILE_STOP_TIMEOUT", "TURNSTILE_DRAIN_TIMEOUT", "TURNSTILE_INTERRUPT_GRACE") {
		p.add("TURNSTILE_STOP_TIMEOUT", "is too short: TURNSTILE_DRAIN_TIMEOUT (%v) + TURNSTILE_INTERRUPT_GRACE (%v) + %v need %v; raise it and the supervisor's own, or lower those",
			w.DrainTimeout, w.InterruptGrace, stopMargin, need)
	}
	atLeast(p, "TURNSTILE_RETRY_BACKOFF", w.RetryBackoff, time.Millisecond)
	p.judgeRetention(w.Retention)
	atLeast(p, "TURNSTILE_SWEEP_INTERVAL", w.SweepInterval, 100*time.Millisecond)
	atLeast(p, "TURNSTILE_MESSAGE_MAX_AGE", w.MessageMaxAge, 0)
	p.judgeOutlivesTurn("TURNSTILE_TRANSCRIPT_TTL", w.TranscriptTTL, w.AgentTimeout)
	p.judgeOutlivesTurn("TURNSTILE_SESSION_TTL", w.SessionTTL, w.AgentTimeout)
	atLeast(p, "TURNSTILE_ARCHIVE_TTL", w.ArchiveTTL, time.Second)
}

func (p *problems) judgeOutlivesTurn(name string, ttl, turn time.Duration) {
	if p.ok(name, "TURNSTILE_AGENT_TIMEOUT") && ttl <= turn {
		p.add(name, "is too short: it must be longer than TURNSTILE_AGENT_TIMEOUT (%v), or it could end during a turn", turn)
	}
}

func (p *problems) judgeLimits(w Worker) {
	atLeast(p, "TURNSTILE_MAX_ATTEMPTS", w.MaxAttempts, 1)
	atLeast(p, "TURNSTILE_PARKED_CAP", w.ParkedCap, 0)
	within(p, "TURNSTILE_FOLLOWUP_CAP", w.FollowupCap, 1, wire.MaxQueueCap)
	within(p, "TURNSTILE_COLLECT_WINDOW", w.CollectWindow, time.Millisecond, wire.MaxDebounce)
	atLeast(p, "TURNSTILE_STUCK_LIMIT", w.StuckLimit, 1)
	p.judgeStored(w.Stored)
	if p.ok("TURNSTILE_LINE_CAP", "TURNSTILE_FOLLOWUP_CAP") && w.LineCap < w.FollowupCap {
		p.add("TURNSTILE_LINE_CAP", "is too small: it must be at least TURNSTILE_FOLLOWUP_CAP (%d)", w.FollowupCap)
	}
	atLeast(p, "TURNSTILE_TRANSCRIPT_BYTES", w.TranscriptBytes, 1<<20)
	atLeast(p, "TURNSTILE_EVENTS_BYTES", w.EventsBytes, 65536)
	if p.ok("TURNSTILE_RECOVERY_RATE") && w.RecoveryRate <= 0 {
		p.add("TURNSTILE_RECOVERY_RATE", "is too small: use a rate above 0, such as 50/s")
	}
}

func (p *problems) judgeHTTP(w Worker) {
	if strings.ContainsFunc(w.HTTPToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.add("TURNSTILE_HTTP_TOKEN", "has characters that do not fit into a header: use printable ASCII without blanks")
	}
	if w.HTTPAddr == "" {
		return
	}
	loopback, err := Loopback(w.HTTPAddr)
	switch {
	case err != nil:
		p.add("TURNSTILE_HTTP_ADDR", "cannot be used: %v", err)
	case !loopback && w.HTTPToken == "" && p.ok("TURNSTILE_HTTP_TOKEN"):
		p.add("TURNSTILE_HTTP_ADDR", "can be reached from other machines: set TURNSTILE_HTTP_TOKEN, or listen on 127.0.0.1")
	}
}

// ErrBadAddress is returned for an address that is not HOST:PORT.
var ErrBadAddress = errors.New("it is not HOST:PORT, such as 127.0.0.1:8080")

// Loopback reports whether only this machine can reach a listener on addr, written HOST:PORT. An
// empty host means all addresses. Host names other than localhost count as reachable from
// elsewhere, because their addresses may change.
func Loopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, ErrBadAddress
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return false, ErrBadAddress
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback(), nil
}

package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
)

// AgentKind is the name of an agent that the worker can run.
type AgentKind string

// The agents.
const (
	AgentEcho   AgentKind = "echo"
	AgentExec   AgentKind = "exec"
	AgentACP    AgentKind = "acp"
	AgentModel  AgentKind = "model"
	AgentClaude AgentKind = "claude"
	AgentCodex  AgentKind = "codex"
	AgentGemini AgentKind = "gemini"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *AgentKind) UnmarshalText(text []byte) error {
	if string(text) == "openai" {
		return errors.New("is called model now")
	}
	return oneOf(k, text, AgentEcho, AgentExec, AgentACP, AgentModel, AgentClaude, AgentCodex, AgentGemini)
}

// RunsPrograms reports whether turns run programs on the worker's machine, which can reach every
// server on its loopback. An unknown agent, as in `worker dashboard`, counts as one that does.
func (a AgentSettings) RunsPrograms() bool {
	switch a.Agent {
	case AgentEcho:
		return false
	case AgentModel:
		return a.ToolsFile != "" || a.MCPFile != "" // its servers may all be remote, which is not known here
	case AgentExec, AgentACP, AgentClaude, AgentCodex, AgentGemini:
	}
	return true
}

// Provider is the API that the agent model speaks.
type Provider string

// The providers: Chat Completions, and the Messages API.
const (
	ProviderOpenAI    Provider = "openai"
	ProviderAnthropic Provider = "anthropic"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Provider) UnmarshalText(text []byte) error {
	return oneOf(v, text, ProviderOpenAI, ProviderAnthropic)
}

// providers have the widely used variables that are read in place of ours, and the address without any.
var providers = map[Provider]struct{ urlName, keyName, url string }{
	ProviderOpenAI:    {"OPENAI_BASE_URL", "OPENAI_API_KEY", "https://api.openai.com/v1"},
	ProviderAnthropic: {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "https://api.anthropic.com"},
}

// ACPPermissions is the decision on an ACP agent's requests for permission.
type ACPPermissions string

// The decisions.
const (
	PermissionsAllow ACPPermissions = "allow"
	PermissionsDeny  ACPPermissions = "deny"
	PermissionsAsk   ACPPermissions = "ask"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *ACPPermissions) UnmarshalText(text []byte) error {
	return oneOf(p, text, PermissionsAllow, PermissionsDeny, PermissionsAsk)
}

// Group is the number of an optional system group.
type Group struct{ Number *int }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Group) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return errors.New("is not the number of a group: write it as 2000")
	}
	g.Number = new(int(n))
	return nil
}

// AgentFormat is the format in which an agent's command reads turns and writes replies.
type AgentFormat string

// The formats.
const (
	FormatText  AgentFormat = "text"
	FormatJSONL AgentFormat = "jsonl"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *AgentFormat) UnmarshalText(text []byte) error {
	return oneOf(f, text, FormatText, FormatJSONL)
}

// CrashPolicy decides about a turn after its worker's death.
type CrashPolicy string

// The crash policies, as internal/protocol has them.
const (
	CrashResume  CrashPolicy = "resume"
	CrashSuspend CrashPolicy = "suspend"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *CrashPolicy) UnmarshalText(text []byte) error {
	return oneOf(p, text, CrashResume, CrashSuspend)
}

// LogFormat is the format of the log.
type LogFormat string

// The formats of the log.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *LogFormat) UnmarshalText(text []byte) error { return oneOf(f, text, LogText, LogJSON) }

func oneOf[T ~string](into *T, text []byte, known ...T) error {
	names := make([]string, len(known))
	for i, k := range known {
		if string(text) == string(k) {
			*into = k
			return nil
		}
		names[i] = string(k)
	}
	last := len(names) - 1
	return fmt.Errorf("is unknown: use %s or %s", strings.Join(names[:last], ", "), names[last])
}

// Command is a command line, split into words.
type Command []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Command) UnmarshalText(text []byte) error {
	words, err := exec.SplitCommand(string(text))
	if err != nil {
		return fmt.Errorf("does not split into words: %s", strings.TrimPrefix(err.Error(), "command: "))
	}
	*c = words
	return nil
}

// Names lists environment variables. A name may end in *, which matches any ending.
type Names []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Names) UnmarshalText(text []byte) error {
	*n = nil
	for name := range strings.SplitSeq(string(text), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if name[0] == '-' || strings.ContainsAny(name, "= \t\r\n") || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return errors.New("is not a list of names: write it as NAME,NAME,PREFIX_* without values")
		}
		*n = append(*n, name)
	}
	return nil
}

// Approvers are who may decide an agent's questions, as session.Question has them.
type Approvers []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Approvers) UnmarshalText(text []byte) error {
	*a = nil
	for who := range strings.SplitSeq(string(text), ",") {
		if who = strings.TrimSpace(who); who != "" {
			*a = append(*a, who)
		}
	}
	if session.ValidateApprovers(*a) != nil {
		*a = nil // nobody looks for their tokens
		return errors.New("must be a list of approvers: write sender, anyone, or senders such as web/alice,ops/*")
	}
	return nil
}

// Isolation is how an agent's programs are isolated, as agent.IsolationLevel has it.
type Isolation agent.IsolationLevel

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *Isolation) UnmarshalText(text []byte) error {
	return oneOf(i, text, Isolation(agent.IsolationNone), Isolation(agent.IsolationConfined), Isolation(agent.IsolationWrapper))
}

// Paths lists absolute paths.
type Paths []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Paths) UnmarshalText(text []byte) error {
	*p = nil
	for path := range strings.SplitSeq(string(text), ":") {
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			return errors.New("is not a list of absolute paths: write it as /opt/node:/srv/agent")
		}
		*p = append(*p, path)
	}
	return nil
}

// Ports lists TCP ports to connect to, and those to listen on as well.
type Ports struct{ Connect, Listen []int }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Ports) UnmarshalText(text []byte) error {
	*p = Ports{}
	for word := range strings.SplitSeq(string(text), ",") {
		word, listen := strings.CutSuffix(strings.TrimSpace(word), "/listen")
		port, err := strconv.ParseUint(word, 10, 16)
		if err != nil || port == 0 {
			return errors.New("is not a list of ports: write it as 443,8443 or 443,4096/listen")
		}
		p.Connect = append(p.Connect, int(port))
		if listen {
			p.Listen = append(p.Listen, int(port))
		}
	}
	return nil
}

// Rate is a number per second.
type Rate float64

// UnmarshalText implements encoding.TextUnmarshaler. It accepts "50" and "50/s".
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "/s"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return errors.New("is not a rate: write it as 50/s")
	}
	*r = Rate(v)
	return nil
}

// parseDuration is wire.ParseDuration with another error: its text continues a sentence that begins
// with the value.
func parseDuration(text string) (time.Duration, error) {
	d, err := wire.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration: write it as 500ms, 90s, 10m, 1h30m or 30d")
	}
	return d, nil
}

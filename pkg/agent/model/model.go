package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// Config has the model and its settings.
type Config struct {
	// Provider is the API of the model's server: "openai" for Chat Completions, or "anthropic" for the Messages API.
	// Defaults to "openai".
	Provider string

	// URL is where Chat Completions are, without /chat/completions: https://api.openai.com/v1. Of
	// "anthropic" it is without /v1/messages: https://api.anthropic.com. Required.
	URL string

	// Key is sent as a bearer token, by "anthropic" as x-api-key. Empty: neither is sent.
	Key string

	// Model is the model's name. Required.
	Model string

	// SystemPrompt comes first in each request, unless it is empty.
	SystemPrompt string

	// MaxTokens limits one reply. Zero: the server's limit. It is sent as max_completion_tokens to
	// OpenAI and Azure, because their newer models know no other name, and as max_tokens to all others,
	// because many of these know no other. Of "anthropic", which wants one, it defaults to 32,000.
	MaxTokens int

	// Thinking is for "anthropic" only: "adaptive" lets the model decide how much it thinks, "disabled" ends it.
	// Empty: the model's default. ThinkingTokens is in place of it for models that know a budget only; it is at least
	// 1,024 and less than MaxTokens.
	Thinking       string
	ThinkingTokens int

	// Temperature is from 0 to 2, of "anthropic" to 1. Nil: the server's. It is not sent with Thinking.
	Temperature *float64

	// ContextTokens is the estimated size that a request may have: one token for 4 bytes of text, 8
	// more for each message and 1000 for an image. It includes the system prompt, the tools, the
	// turn itself and what a client's program brings, which are always sent. When the history no longer
	// fits, it is cut down to 70 % of ContextTokens, and begins there for many turns: servers charge less for
	// a request that begins as the one before. The place does not move within a turn. Defaults to 32,000.
	ContextTokens int

	// ImageBytes is how many bytes the history's images may have in a request. When they have more, the
	// older ones are only named, so that 70 % are left. Defaults to 4 MiB.
	ImageBytes int

	// Compact has the model sum up what is cut. The summary stands in its place.
	Compact bool

	// Tools are offered to the model.
	Tools []Tool

	// MCPFile names a file of MCP servers, whose tools are offered to the model, too: see docs/agents/mcp.md. It is
	// read by New.
	MCPFile string

	// ToolRounds is how many replies of one turn may have tool calls. Then the model is asked once more, without tools.
	// If it calls one even so, the turn fails.
	// Defaults to 25.
	ToolRounds int

	// ToolTimeout is how long a tool without a Timeout may take. Defaults to 1 min.
	ToolTimeout time.Duration

	// Grace is how long a tool may run after SIGINT when its turn is interrupted. Defaults to
	// 5 s. Negative: it is killed at once.
	Grace time.Duration

	// Env names further environment variables of this program that all tools get, as in
	// exec.Config.
	Env []string

	// Instructable: the agent does what a message's session.ModelRequest says: functions of the client,
	// instructions after SystemPrompt, settings of the model. Without it no message with one reaches it.
	Instructable bool

	// Isolation keeps the tools from other sessions and the worker. With it, a tool's Dir defaults to
	// the session's directory.
	Isolation agent.Isolation

	// MaxRetries is how often a request is retried when the server fails or cannot be reached. A busy server (429) is
	// waited for once in a turn, and then the turn ends with agent.ErrThrottled. Defaults to 4. Negative: never.
	MaxRetries int

	// MaxWait is how long the turn waits for the server at once while it runs. If the server asks for more, the turn
	// ends with agent.ErrThrottled. Defaults to 20 s.
	MaxWait time.Duration

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Agent asks the model of a Config.
type Agent struct {
	config   Config
	base     *url.URL
	http     *http.Client
	provider provider
	tools    map[string]tool
	servers  *mcp.Servers // nil: there are none
	request  request      // the common part of all requests
	fixed    int          // its estimated tokens, with the system prompt

	maxCompletion int
	silence       time.Duration
	afterEnd      time.Duration
	sleep         func(ctx context.Context, d time.Duration) error // tests replace it
	now           func() time.Time
}

// New checks the configuration. It sends nothing to the server. It fails if there are tools and
// exec.Init was not called.
func New(config Config) (*Agent, error) {
	base, err := url.Parse(config.URL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("model agent: the base URL is not an address: write it as https://HOST/v1")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("model agent: the base URL must end with its path: leave out what begins with ? or #")
	case strings.TrimSpace(config.Model) == "":
		return nil, errors.New("model agent: the model is not set")
	case strings.ContainsAny(config.Key, "\r\n\x00"):
		return nil, errors.New("model agent: the key has a line break or a zero byte in it")
	case config.Temperature != nil && !(*config.Temperature >= 0 && *config.Temperature <= 2):
		return nil, errors.New("model agent: the temperature is not between 0 and 2")
	case config.MaxTokens < 0 || config.ContextTokens < 0 || config.ImageBytes < 0 || config.ToolRounds < 0 || config.ToolTimeout < 0 || config.MaxWait < 0:
		return nil, errors.New("model agent: a limit is negative")
	case len(config.Tools)+len(config.MCPFile) > 0 && !guardian.Ready():
		return nil, errors.New("model agent: exec.Init was not called: call it first thing in main (in tests: in TestMain)")
	}
	if err := config.checkProvider(); err != nil {
		return nil, err
	}
	config.setDefaults()
	a := &Agent{config: config, base: base, tools: map[string]tool{}, maxCompletion: maxCompletion, silence: mostSilence, afterEnd: mostAfterEnd, sleep: sleep, now: time.Now}
	for i, t := range config.Tools {
		env, err := command.NewEnv(append(append([]string{}, config.Env...), t.Env...))
		if err == nil {
			err = errors.Join(t.check()...)
		}
		if _, twice := a.tools[t.Name]; err == nil && twice {
			err = fmt.Errorf("there are two tools named %q", t.Name)
		}
		var isolator command.Isolator
		if err == nil {
			isolator, err = command.NewIsolator(config.Isolation, t.Argv...)
		}
		if err != nil {
			return nil, fmt.Errorf("model agent: tool %d: %w", i+1, err)
		}
		a.tools[t.Name] = tool{Tool: t, environ: env, isolator: isolator}
	}
	if err := a.loadServers(); err != nil {
		return nil, fmt.Errorf("model agent: MCP servers: %w", err)
	}
	a.connect()
	a.provider = chat{a, endpoint(*base)}
	if config.Provider == providerAnthropic {
		a.provider = newAnthropic(a)
	}
	a.prepare()
	return a, nil
}

// The providers.
const (
	providerOpenAI    = "openai"
	providerAnthropic = "anthropic"
)

func (c *Config) checkProvider() error {
	switch c.Provider {
	case "", providerOpenAI:
		if c.Thinking != "" || c.ThinkingTokens != 0 {
			return errors.New("model agent: thinking and thinking_tokens are for the provider anthropic only")
		}
		return nil
	case providerAnthropic:
	default:
		return fmt.Errorf("model agent: the provider %q is unknown: use openai or anthropic", c.Provider)
	}
	switch most := cmp.Or(c.MaxTokens, defaultMaxTokens); {
	case c.Thinking != "" && c.Thinking != thinkAdaptive && c.Thinking != thinkDisabled:
		return fmt.Errorf("model agent: thinking is %q: use adaptive or disabled", c.Thinking)
	case c.Thinking != "" && c.ThinkingTokens != 0:
		return errors.New("model agent: there are both thinking and thinking_tokens: leave out one")
	case c.ThinkingTokens != 0 && (c.ThinkingTokens < leastThinking || c.ThinkingTokens >= most):
		return fmt.Errorf("model agent: thinking_tokens is %d: use at least %d, and less than max_tokens, which is %d", c.ThinkingTokens, leastThinking, most)
	case c.Temperature != nil && *c.Temperature > 1:
		return errors.New("model agent: the temperature of anthropic is at most 1")
	}
	return nil
}

func (c *Config) setDefaults() {
	byDefault(&c.ContextTokens, 32_000)
	byDefault(&c.ImageBytes, defaultImageBytes)
	byDefault(&c.ToolRounds, 25)
	byDefault(&c.ToolTimeout, time.Minute)
	byDefault(&c.Grace, 5*time.Second)
	byDefault(&c.MaxRetries, 4)
	byDefault(&c.MaxWait, 20*time.Second)
	c.Grace = max(c.Grace, 0)
	c.MaxRetries = max(c.MaxRetries, 0)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

func byDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Traits says that running turns take further messages, and go on after an interruption.
func (a *Agent) Traits() agent.Traits {
	return agent.Traits{Steerable: true, Continues: true, Instructable: a.config.Instructable}
}

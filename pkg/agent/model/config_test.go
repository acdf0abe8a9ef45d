package model

import (
	"math"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{URL: "http://127.0.0.1/v1", Model: "m"}
	if a, err := New(good); err != nil || a.config.ContextTokens != 32_000 || a.config.Grace != 5*time.Second || a.Traits() != (agent.Traits{Steerable: true, Continues: true}) {
		t.Errorf("%+v, %v", a, err)
	}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.URL = "localhost:1" }, "base URL is not an address"},
		{func(c *Config) { c.URL = "" }, "base URL is not an address"},
		{func(c *Config) { c.URL += "?a=b" }, "leave out"},
		{func(c *Config) { c.Model = " " }, "model is not set"},
		{func(c *Config) { c.Key = "a\n" }, "line break"},
		{func(c *Config) { c.Temperature = ptr(math.NaN()) }, "temperature"},
		{func(c *Config) { c.Temperature = ptr(2.1) }, "temperature"},
		{func(c *Config) { c.MaxTokens = -1 }, "negative"},
		{func(c *Config) { c.ToolTimeout = -time.Second }, "negative"},
		{func(c *Config) { c.Tools = []Tool{shell("a", "b"), shell("a", "b")} }, `tool 2: there are two tools named "a"`},
		{func(c *Config) { c.Tools = []Tool{{Name: "a b"}} }, `tool 1: the name "a b" is not`},
		{func(c *Config) { c.Env = []string{"REDIS_URL"}; c.Tools = []Tool{shell("a", "b")} }, "REDIS_URL"},
	} {
		config := good
		c.change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for host, newer := range map[string]bool{"https://api.openai.com/v1": true, "https://x.openai.azure.com/v1": true, "https://notopenai.com": false, "http://localhost:1": false} {
		a, err := New(Config{URL: host, Model: "m", MaxTokens: 7})
		if err != nil {
			t.Fatal(err)
		}
		if q := (chat{Agent: a}).wire(a.request); (q.MaxCompletionTokens == 7) != newer || (q.MaxTokens == 7) == newer {
			t.Errorf("%s: %+v", host, q)
		}
	}
	for _, at := range []string{"", "/"} {
		r := newRig(t, Config{}, text("a"))
		a, err := New(Config{URL: r.model.URL() + at, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		defer a.http.CloseIdleConnections()
		if _, err := a.Run(t.Context(), turn("a")); err != nil {
			t.Error(err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

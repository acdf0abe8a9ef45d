package engine_test

import (
	"strings"
	"testing"
	"time"

	"turnstile/internal/engine"
	"turnstile/pkg/agent/echo"
)

func TestNewRefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for field, o := range map[string]engine.Options{
		"Concurrency":  {Concurrency: -1},
		"AgentTimeout": {AgentTimeout: -time.Second},
		"ShareTime":    {ShareTime: -time.Second},
		"WarmAgents":   {WarmAgents: -2},
		"AskTimeout":   {AskTimeout: -2},
	} {
		if _, err := engine.New(r.rdb, echo.New(), o); err == nil || !strings.Contains(err.Error(), "Options."+field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

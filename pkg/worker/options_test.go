package worker_test

import (
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

func TestNewRefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for field, o := range map[string]worker.Options{
		"Concurrency":  {Concurrency: -1},
		"AgentTimeout": {AgentTimeout: -time.Second},
		"ShareTime":    {ShareTime: -time.Second},
		"WarmAgents":   {WarmAgents: -2},
		"AskTimeout":   {AskTimeout: -2},
	} {
		if _, err := worker.New(r.rdb, echo.New(), o); err == nil || !strings.Contains(err.Error(), "Options."+field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

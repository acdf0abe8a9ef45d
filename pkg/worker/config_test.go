package worker_test

import (
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

func TestNewRefusesInvalidConfigs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, c := range map[string]worker.Config{
		"Concurrency is negative":           {Concurrency: -1},
		"AgentTimeout is negative":          {AgentTimeout: session.NoLimit},
		"WaitingAgents is below -1":         {WaitingAgents: -2},
		"WarmAgents is negative":            {WarmAgents: session.NoLimit},
		"AskTimeout is negative and not":    {AskTimeout: -2},
		"DrainTimeout is negative and":      {DrainTimeout: -time.Second},
		"LeaseTTL is below 1s":              {LeaseTTL: time.Millisecond},
		"Keep.Results is negative":          {Keep: worker.Keep{Results: session.NoLimit}},
		`Crash is "burn": use CrashResume`:  {Crash: "burn"},
		`Queue.Mode is wrong: invalid mode`: {Queue: session.QueueSettings{Mode: "often"}},
		`Queue.Drop is wrong: invalid drop`: {Queue: session.QueueSettings{Drop: "all"}},
	} {
		if _, err := worker.New(r.rdb, echo.New(), c); err == nil || !strings.Contains(err.Error(), "worker: Config."+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := worker.New(r.rdb, echo.New(), worker.Config{AskTimeout: session.NoLimit, DrainTimeout: session.NoLimit, MessageMaxAge: session.NoLimit}); err != nil {
		t.Error(err)
	}
}

func TestTwoConfigsPanic(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _ = worker.New(nil, echo.New(), worker.Config{}, worker.Config{})
}

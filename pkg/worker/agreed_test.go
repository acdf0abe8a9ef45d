package worker_test

import (
	"log/slog"
	"testing"

	"turnstile/internal/protocol/agreement"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/watched"
)

// Workers that do not say which settings must be the same compare their agents' names and limits.
func TestWorkersOfTwoProgramsInOneDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.worker(says("default"), named("a:*"), with(func(c *worker.Config) { c.AgentName = "claude" }))
	expect.Soon(t, "what the first publishes", func() bool {
		all, err := agreement.Living(r.ctx, r.rdb)
		expect.OK(t, err)
		return len(all) == 1
	})
	log := watched.NewOutput()
	r.worker(says("default"), with(func(c *worker.Config) {
		c.AgentName, c.Limits.MessageBytes, c.Logger = "codex", 4096, slog.New(slog.NewTextHandler(log, nil))
	}))
	for _, differs := range []string{
		`setting=agents own=default other="a default"`, `setting=AgentName own=codex other=claude`,
		`setting=Limits own="{MessageBytes:4096 Queue:10000 AllQueues:-1 Outbox:1000 Destination:1000000}" other="{MessageBytes:2097152 Queue:10000 AllQueues:-1 Outbox:1000 Destination:1000000}"`,
	} {
		log.Await(t, differs+" neighbour="+one.Name()+"\n")
	}
}

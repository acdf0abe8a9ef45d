package outbox_test

import (
	"testing"

	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Redis is killed while a POST is in progress, and started again: nothing is lost, the order is
// kept, and the answer is stored as soon as Redis is back.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	r := rigOn(t, server.Client())
	r.Client, r.Worker = actors.NewClient(acl.Open(t, server, acl.Sender)), actors.NewWorker(t, acl.Open(t, server, acl.Worker), "one")
	entered, release := make(chan struct{}, 1), make(chan struct{})
	v := r.receiver(func(g got) int {
		if g.message == "b" && !g.duplicate {
			entered <- struct{}{}
			<-release
		}
		return 200
	})
	v.deliverer()
	r.answer(r.key(1), "bot", "a", "b", "c")
	expect.Received(t, "the POST of b", entered)
	server.Kill()
	close(release)
	expect.List(t, "before the restart", v.messages(2), "a", "b")
	server.Start()
	r.due(r.key(1)) // by the sweep
	expect.Soon(t, "all to be delivered", func() bool { return r.stored(r.key(1)) == 0 })
	v.check()
	expect.Equal(t, "the POSTs", len(v.posts), 3)
}

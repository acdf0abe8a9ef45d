package protocol_test

import (
	"fmt"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/redistest"
)

// A long-lived client forgets the sessions that it has written to.
func TestClientForgetsSessions(t *testing.T) {
	t.Parallel()
	tasks := protocol.NewEnqueuer(redistest.New(t), session.Limits{}.WithDefaults())
	const n = 300
	protocol.SetEnqueuesPerClient(tasks, 100)
	for i := range n {
		_, err := tasks.Enqueue(t.Context(), fmt.Sprint("s", i), session.Message{ID: "m", Text: "x"}, "nonce", 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	if known := protocol.QueuesKnown(tasks); known > 100 {
		t.Errorf("%d queues are remembered", known)
	}
}

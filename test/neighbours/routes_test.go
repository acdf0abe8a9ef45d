package neighbours

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A worker of the version before knows of no routes: it ends messages and keeps no promise. The
// promises stay, and the sweep of a worker of this version finds them: its deliverers get the
// outcomes, in the order in which they are found.
func TestOldWorkerWithRoutes(t *testing.T) {
	t.Parallel()
	before, this := versions(t)
	s := newStage(t)
	client, key := turnstile.NewClient(s.rdb), "agent:routes:1"
	expect.OK(t, client.Session(key).SetReplyTo(t.Context(), "hook"))
	old := s.worker(before)
	var want []string
	for i := range 3 {
		id := fmt.Sprint("m", i)
		s.say(key, id, id)
		want = append(want, "message.done "+id+" echo: "+id)
	}
	for i := range 3 {
		s.ends(key, fmt.Sprint("m", i))
	}
	k := rediskey.For(key)
	expect.Equal(t, "promises", s.rdb.HLen(t.Context(), k.Owed()).Val(), 3)

	s.worker(this, "TURNSTILE_SWEEP_INTERVAL=200ms")
	old.drain()
	expect.Soon(t, "the sweep finds the session", func() bool {
		return s.rdb.ZScore(t.Context(), rediskey.Outbox, key).Err() == nil
	})
	known := []protocol.Line{{Destination: "hook", MaxAge: time.Hour}}
	taken, err := protocol.TakeLines(t.Context(), s.rdb, key, known, time.Minute)
	expect.OK(t, err)
	var got []string
	for _, d := range taken.Deliveries {
		var r struct {
			Type string
			Data struct {
				Messages []string
				Outcome  session.Outcome
			}
		}
		expect.OK(t, json.Unmarshal(d.Body, &r))
		got = append(got, fmt.Sprint(r.Type, " ", r.Data.Messages[0], " ", r.Data.Outcome.Reply))
	}
	slices.Sort(got)
	expect.List(t, "records", got, want...)
	expect.Equal(t, "promises", s.rdb.Exists(t.Context(), k.Owed()).Val(), 0)
}

package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A full Redis starts no turn and takes no message, and lets every turn end.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	server := redistest.StartServer(t, "--databases", "512")
	full := func(is bool) {
		limit := "0"
		if is {
			limit = "1" // byte
		}
		expect.OK(t, server.Client().ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
	refused := map[string]bool{"accept": true, "claim": true, "rotate": true, "title": true, "configure": true}
	refuses := map[string]bool{"rejected": true, "no room": true, "no room for a delayed one": true}
	for n, s := range slices.Concat(situations(), vanished(), aside()) {
		t.Run(strings.TrimSuffix(s.script+"/"+s.name, "/"), func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DB: n + 1})
			defer rdb.Close()
			b := actors.BenchOn(t, rdb)
			move := s.prepare(b)
			before, ends := b.Dump(), int64(1)
			if b.State("now") == "" { // it was deleted
				ends = 0
			}
			full(true)
			err := move()
			full(false)
			var asleep *protocol.NotWokenError
			switch {
			case errors.As(err, &asleep):
				// The script has done its part; the indexes are full, too. Reap finds the rest.
				b.Overdue(rediskey.Owned)
				b.Reap()
				waits := rdb.Exists(b.Ctx, b.Keys.Active(), b.Keys.Pending(), b.Keys.Scheduled()).Val() > 0 // else they were deleted
				if waits && !b.IsIn(rediskey.Ready, actors.Key) && !b.IsIn(rediskey.Due, actors.Key) {
					t.Errorf("not found by reap:\n%s", b.Dump())
				}
			case refuses[strings.TrimSuffix(s.name, " with a route")]: // it stores nothing
				expect.OK(t, err)
				actors.Same(t, "refused", before, b.Dump())
			case strings.HasPrefix(s.name, "tidies: "): // no turn begins
				expect.OK(t, err)
			case strings.HasPrefix(s.name, "too long"): // archiving it frees memory, so a full Redis allows it
				expect.OK(t, err)
				expect.Equal(t, "archived", b.State("now"), "archived")
			case refused[s.script]:
				if err == nil || !strings.Contains(err.Error(), "OOM") {
					t.Errorf("a full Redis allowed %s: %v", s.script, err)
				}
				actors.Same(t, "a refused "+s.script, before, b.Dump())
			case err != nil:
				t.Errorf("a full Redis refused %s: %v", s.script, err)
			}
			if s.script == "finish" && rdb.Exists(b.Ctx, b.Keys.Sentinel()).Val() == 0 {
				expect.Equal(t, "state after a finish that released", rdb.ZCard(b.Ctx, b.Keys.Completed()).Val()+rdb.ZCard(b.Ctx, b.Keys.Archived()).Val(), ends)
			}
		})
	}
	t.Run("send", func(t *testing.T) {
		b := actors.BenchOn(t, server.Client())
		full(true)
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "hi"})
		full(false)
		if err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("send: %v", err)
		}
		expect.Equal(t, "the database", b.Dump(), "")
	})
	t.Run("whole turn", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DB: 511})
		defer rdb.Close()
		b := actors.BenchOn(t, rdb)
		b.SayAll("a", "b")
		h := b.Claim()
		full(true)
		defer full(false)
		expect.OK(t, h.Promote(b.Ctx))
		expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
		expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}}))
		expect.Equal(t, "has a next turn", b.Finish(h), true)
		if b.Finish(h) {
			t.Error("a third turn")
		}
		for _, id := range []string{"a", "b"} {
			expect.Equal(t, "reply to "+id, b.Outcome(id).Reply, fmt.Sprint("re: ", id))
		}
	})
	t.Run("finish of a message that an operator deleted", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DB: 510})
		defer rdb.Close()
		b := actors.BenchOn(t, rdb)
		b.SayAll("a", "b")
		h := b.Start()
		rdb.Del(b.Ctx, b.Keys.Task(b.Task("a")))
		full(true)
		defer full(false)
		expect.Equal(t, "has a next turn", b.Finish(h), true)
		expect.Equal(t, "with", h.Turn().Message.ID, "b")
	})
}

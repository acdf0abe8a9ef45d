package admin_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// listed returns the keys of all pages of a query, and how many pages there were.
func listed(b *actors.Bench, q admin.Query) (keys []string, pages int) {
	b.Helper()
	for {
		page, err := b.Client.Page(b.Ctx, q)
		expect.OK(b, err)
		for _, s := range page.Sessions {
			keys = append(keys, s.Session)
		}
		if pages++; page.Next == "" {
			return keys, pages
		}
		if q.Cursor = page.Next; pages > 1000 {
			b.Fatal("it does not end")
		}
	}
}

func wantList(b *actors.Bench, state admin.State, want ...string) {
	b.Helper()
	keys, _ := listed(b, admin.Query{State: state})
	slices.Sort(keys)
	slices.Sort(want)
	expect.List(b, fmt.Sprintf("%q", state), keys, want...)
}

func TestListByState(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	say := func(key string, opts ...actors.Option) {
		t.Helper()
		_, err := b.Client.Session(key).Send(b.Ctx, actors.With(turnstile.Message{ID: "m", Text: "x"}, opts...))
		expect.OK(t, err)
	}
	for _, key := range []string{"starting", "running", "asking", "idle", "dead", "died", "paused"} {
		say(key)
	}
	b.Pop()
	claims, err := b.Worker.Claim(b.Ctx, []string{"starting", "running", "asking", "idle", "dead", "died"})
	expect.OK(t, err)
	for _, h := range claims {
		if h.Turn().Session == "starting" {
			continue
		}
		expect.OK(t, h.Promote(b.Ctx))
		switch h.Turn().Session {
		case "asking":
			_, err := h.Ask(b.Ctx, session.Question{Name: "run make"})
			expect.OK(t, err)
		case "idle":
			b.Finish(h)
		case "died":
			expect.OK(t, b.Redis.Del(b.Ctx, rediskey.For("died").Sentinel()).Err())
		case "dead":
			end := b.Done(h)
			end.Status, end.Error = session.StatusFailed, "it failed"
			_, err := h.Finish(b.Ctx, end)
			expect.OK(t, err)
		}
	}
	say("waiting")
	say("delayed", actors.Delay(time.Hour))
	say("cancelled", actors.Delay(time.Hour))
	_, _, err = actors.Cancel(b.Ctx, b.Client.Session("cancelled"), "m", false)
	expect.OK(t, err)
	say("stopped")
	b.Pop()
	_, err = b.Client.Session("stopped").Stop(b.Ctx)
	expect.OK(t, err)
	expect.OK(t, b.Inspector().PauseQueue(rediskey.Queue("paused")))
	wantList(b, admin.StateAttention, "asking", "dead", "cancelled", "stopped")
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Ready, redis.Z{Score: 1, Member: "waiting"}).Err())
	b.Sweep() // it finds the pause
	wantList(b, admin.StateAttention, "asking", "dead", "cancelled", "stopped", "paused")
	for state, want := range map[admin.State]string{
		admin.StateStarting: "starting", admin.StateRunning: "running", admin.StateAsking: "asking", admin.StatePaused: "paused",
		admin.StateWaiting: "waiting", admin.StateDelayed: "delayed",
	} {
		wantList(b, state, want)
	}
	wantList(b, admin.StateIdle, "idle", "dead", "cancelled", "stopped")
	wantList(b, admin.StateBusy, "starting", "running", "asking", "died", "paused", "waiting", "delayed")
	wantList(b, "", "starting", "running", "asking", "idle", "dead", "died", "paused", "waiting", "delayed", "cancelled", "stopped")
	keys, _ := listed(b, admin.Query{State: admin.StateAttention, Prefix: "d"})
	expect.List(t, "with a prefix", keys, "dead")
	died, err := b.Client.Operate("died").Info(b.Ctx)
	expect.OK(t, err)
	if died.State != admin.StateWaiting || died.Phase != session.PhaseParked || died.Turn == "" || died.Worker != "" || !died.Until.IsZero() {
		t.Errorf("a turn whose worker died, and that no claim has found yet: %+v", died)
	}

	// A session that no longer needs attention is not listed, and leaves the index with the next
	// sweep.
	_, err = b.Client.Session("asking").Decide(b.Ctx, "1", session.Allow)
	expect.OK(t, err)
	_, err = b.Client.Operate("dead").DeleteDeadLetters(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.OK(t, b.Client.Operate("stopped").Erase(b.Ctx))
	wantList(b, admin.StateAttention, "cancelled", "paused")
	b.Sweep()
	left := b.Redis.ZRange(b.Ctx, rediskey.Attention, 0, -1).Val()
	slices.Sort(left)
	expect.List(t, "the index", left, "cancelled", "paused")
	if b.IsIn(rediskey.Names, "stopped") {
		t.Error("an erased session is in the order of keys")
	}
}

// fillSessions lists n sessions without keys, in groups with the same time of activity.
func fillSessions(b *actors.Bench, n, group int) {
	b.Helper()
	for from := 0; from < n; from += 10_000 {
		var known, names []redis.Z
		for i := from; i < min(from+10_000, n); i++ {
			key := fmt.Sprintf("s%06d", i)
			known, names = append(known, redis.Z{Score: float64(1000 + i/group), Member: key}), append(names, redis.Z{Member: key})
		}
		expect.OK(b, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, known...).Err())
		expect.OK(b, b.Redis.ZAdd(b.Ctx, rediskey.Names, names...).Err())
		expect.OK(b, b.Redis.ZAdd(b.Ctx, rediskey.Attention, known...).Err())
	}
}

// Pages together have each session once, also if many have the same time, and if the last of a page
// moves to the front before the next.
func TestListPages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 700
	fillSessions(b, n, 300)
	for _, prefix := range []string{"", "s"} {
		keys, pages := listed(b, admin.Query{Limit: 90, Prefix: prefix})
		expect.Equal(t, "sessions", len(keys), n)
		expect.Equal(t, "pages", pages, 8)
		expect.Equal(t, "in order", slices.IsSortedFunc(keys, func(a, c string) int {
			if prefix == "" {
				a, c = c, a
			}
			return strings.Compare(a, c)
		}), true)
	}
	keys, _ := listed(b, admin.Query{Prefix: "s00001"})
	expect.Equal(t, "with a prefix", len(keys), 10)

	seen, q := map[string]int{}, admin.Query{Limit: 90}
	for i := 0; ; i++ {
		page, err := b.Client.Page(b.Ctx, q)
		expect.OK(t, err)
		for _, s := range page.Sessions {
			seen[s.Session]++
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
		last := page.Sessions[len(page.Sessions)-1].Session
		expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: float64(5000 + i), Member: last}).Err())
	}
	expect.Equal(t, "sessions seen while some move", len(seen), n)
}

func TestListRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	fillSessions(b, 3, 1)
	page, err := b.Client.Page(b.Ctx, admin.Query{Limit: 1})
	expect.OK(t, err)
	for _, q := range []admin.Query{
		{Limit: -1}, {Limit: 501}, {State: "odd"}, {Prefix: "a b"}, {Prefix: "*"}, {Match: "a/b"}, {Match: "["}, {Match: "a\x1b"}, {Match: "{a}"}, {Cursor: "x"}, {Cursor: "!"},
		{Cursor: page.Next, State: admin.StateAttention}, {Cursor: page.Next, Prefix: "s"},
	} {
		if _, err := b.Client.Page(b.Ctx, q); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// A call looks at no more than 1,000 sessions of 100,000, and a page that matches at once reads only
// that many.
func TestListLooksAtFew(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	fillSessions(b, 100_000, 50_000)
	commands := 0
	counting := b.BareRedis()
	counting.AddHook(actors.Hook(func(cmds []redis.Cmder, send func() error) error {
		commands += len(cmds)
		return send()
	}))
	client := admin.NewClient(counting)
	perSession := 13 // commands that read one session and its state
	page := func(q admin.Query, most int) admin.Page {
		t.Helper()
		commands = 0
		list, err := client.Page(b.Ctx, q)
		expect.OK(t, err)
		if commands > most*perSession+100 {
			t.Errorf("%+v: %d commands for %d sessions", q, commands, most)
		}
		return list
	}
	first := page(admin.Query{Limit: 100}, 100)
	expect.Equal(t, "sessions of the first page", len(first.Sessions), 100)
	expect.Equal(t, "the newest", first.Sessions[0].Session, "s099999")
	deep := page(admin.Query{Limit: 100, Prefix: "s05"}, 100)
	expect.Equal(t, "the first of the prefix", deep.Sessions[0].Session, "s050000")
	second := page(admin.Query{Limit: 100, Cursor: first.Next}, 100)
	expect.Equal(t, "behind the first page", second.Sessions[0].Session, "s099899")
	none := page(admin.Query{State: admin.StateAttention}, 1000)
	expect.Equal(t, "sessions that need attention", len(none.Sessions), 0)
	if none.Next == "" {
		t.Error("a short page has no next")
	}
}

// A list for a user who may see some sessions names no others, neither in a page nor in its cursor,
// and ends.
func TestListOnly(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 1500 {
		expect.OK(t, b.Client.Session(fmt.Sprintf("others:%04d", i)).SetTitle(b.Ctx, "x"))
	}
	var mine []string
	for i := range 5 {
		key := fmt.Sprintf("others:%04d:mine", i*300)
		expect.OK(t, b.Client.Session(key).SetTitle(b.Ctx, "x"))
		mine = append(mine, key)
	}
	_, err := b.Client.Session(mine[4]).Send(b.Ctx, turnstile.Message{Text: "x"})
	expect.OK(t, err)
	only := func(key string) bool { return strings.HasSuffix(key, ":mine") }
	for _, q := range []admin.Query{{}, {Limit: 2}, {Limit: 1, Prefix: "others:"}, {State: admin.StateIdle, Limit: 3}, {State: admin.StateWaiting}, {Prefix: "none"}} {
		q.Only = only
		var got []string
		for {
			page, err := b.Client.Page(b.Ctx, q)
			expect.OK(t, err)
			for _, s := range page.Sessions {
				got = append(got, s.Session)
			}
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
			text, err := base64.RawURLEncoding.DecodeString(page.Next)
			expect.OK(t, err)
			if !only(string(text)) {
				t.Errorf("the cursor is %s", text)
			}
		}
		want := map[string][]string{"": mine, "idle": mine[:4], "waiting": mine[4:]}[string(q.State)]
		if q.Prefix == "none" {
			want = nil
		}
		expect.List(t, fmt.Sprintf("%+v", q.State), got, want...)
	}
}

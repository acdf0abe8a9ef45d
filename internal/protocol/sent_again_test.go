package protocol_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A repeated request has the first one's result and changes nothing, whatever happened in between:
// the turn ended, the queue was stopped, others made the same request, or a new transcript began.
func TestRepeatedRequestsHaveTheFirstResult(t *testing.T) {
	t.Parallel()
	kept := []string{"stop/", "undo/", "undo/to try again", "rerun/"}
	seen := map[string]bool{}
	for _, s := range situations() {
		name := s.script + "/" + s.name
		if !slices.Contains(kept, name) {
			continue
		}
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			move := s.prepare(b)
			r := &repeated{b: b, script: s.script, between: func() { goOn(b) }}
			b.Redis.AddHook(actors.Hook(r.around))
			expect.OK(t, move())
			if r.first == "" {
				t.Fatalf("%s was not called", s.script)
			}
			expect.Equal(t, "the second result", r.second, r.first)
			actors.Same(t, "a repetition of "+name, r.before, r.after)
		})
	}
	expect.Equal(t, "situations", len(seen), len(kept))
}

// goOn lets others use the session: its turn ends, and the waiting messages are run, stopped and
// refused, requeued and rerun, in one transcript and the next.
func goOn(b *actors.Bench) {
	b.Helper()
	other := *b
	other.Redis = b.BareRedis()
	other.Client = actors.NewClient(other.Redis)
	other.Worker = actors.NewWorker(b.T, other.Redis, "other")
	other.Die()
	other.Drain()
	other.SayAll("x1", "x2", "x3")
	h := other.Start()
	other.Say("x4", session.ModeReject)
	_, err := other.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(b, err)
	for more := true; more; {
		more = other.Finish(h)
	}
	_, err = other.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(b, err)
	other.Drain()
	_, err = other.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(b, err)
	_, err = other.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(b, err)
	other.Say("x5")
	other.Drain()
}

// repeated sends a script's first call twice, with other calls in between.
type repeated struct {
	b       *actors.Bench
	script  string
	between func()

	first, second string // results
	before, after string // the database around the second call
}

func (r *repeated) around(cmds []redis.Cmder, send func() error) error {
	err := send()
	if err != nil || r.first != "" || !actors.Script(r.script)(cmds[0]) {
		return err
	}
	r.first = answered(cmds[0])
	r.between()
	r.before = r.b.Dump()
	err = send()
	r.after, r.second = r.b.Dump(), answered(cmds[0])
	return err
}

var clockMS = regexp.MustCompile(`\b1\d{12}\b`)

// answered returns a script's result without times.
func answered(cmd redis.Cmder) string {
	answer, err := cmd.(redistest.Reply).Result()
	return fmt.Sprint(clockMS.ReplaceAllString(fmt.Sprint(answer), "ms"), " ", err)
}

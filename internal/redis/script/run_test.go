package script_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

// making guards the list of all scripts: a program makes its scripts in one goroutine, but
// these tests run in parallel.
var making sync.Mutex

func newScript(name, source string) *script.Script {
	making.Lock()
	defer making.Unlock()
	return script.New(name, source)
}

// named returns a script that Redis does not know. It returns its key and its argument; the
// argument "wrong" fails it.
func named(t *testing.T) *script.Script {
	return newScript(t.Name(), "-- "+t.Name()+fmt.Sprint(time.Now().UnixNano())+`
		if ARGV[1] == 'wrong' then return redis.error_reply('ERR wrong') end
		return {KEYS[1], ARGV[1]}`)
}

// runs are the ways to send one call.
var runs = map[string]func(ctx context.Context, client redis.UniversalClient, s *script.Script, key, arg string) (script.Result, error){
	"Run": func(ctx context.Context, client redis.UniversalClient, s *script.Script, key, arg string) (script.Result, error) {
		return s.Run(ctx, client, []string{key}, arg)
	},
	"Batcher.Run": func(ctx context.Context, client redis.UniversalClient, s *script.Script, key, arg string) (script.Result, error) {
		return script.NewBatcher(client, 1).Run(ctx, s, []string{key}, arg)
	},
	"Pipeline": func(ctx context.Context, client redis.UniversalClient, s *script.Script, key, arg string) (script.Result, error) {
		call := &script.Call{Script: s, Keys: []string{key}, Args: []any{arg}}
		err := script.Pipeline(ctx, client, []*script.Call{call}, nil)
		return call.Result, errors.Join(err, call.Err)
	},
}

// A script that Redis does not know is sent in full, once.
func TestUnknownScript(t *testing.T) {
	t.Parallel()
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, s, faults := redistest.New(t), named(t), &redistest.Faults{}
			client.AddHook(faults)
			for round, want := range []int{2, 1} {
				faults.ResetCounts()
				r, err := run(t.Context(), client, s, "key", "argument")
				if err != nil || r.Text(0) != "key" || r.Text(1) != "argument" {
					t.Errorf("round %d: %v, %v", round, r, err)
				}
				if n := faults.CountCommands(); n != want {
					t.Errorf("round %d: %d commands, want %d", round, n, want)
				}
			}
			if _, err := run(t.Context(), client, s, "key", "wrong"); err == nil || err.Error() != "ERR wrong" {
				t.Errorf("%v, want the script's error", err)
			}
		})
	}
}

// A proxy never knows a script, even in full: the error is returned.
func TestScriptThatStaysUnknown(t *testing.T) {
	t.Parallel()
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, s, faults := redistest.New(t), named(t), &redistest.Faults{}
			client.AddHook(faults)
			faults.FailBefore(redistest.Any, -1, redistest.ReplyError("NOSCRIPT never heard of"))
			if _, err := run(t.Context(), client, s, "key", "argument"); !redis.HasErrorPrefix(err, "NOSCRIPT") {
				t.Errorf("%v, want NOSCRIPT", err)
			}
			if n := faults.CountCommands(); n != 2 {
				t.Errorf("%d commands, want 2", n)
			}
		})
	}
}

// Many calls of two unknown scripts are sent with other commands; one call fails.
func TestPipeline(t *testing.T) {
	t.Parallel()
	const n = 40
	for name, start := range map[string]func(t *testing.T) redis.UniversalClient{
		"one server": func(t *testing.T) redis.UniversalClient { return redistest.New(t) },
		"cluster":    func(t *testing.T) redis.UniversalClient { return redistest.StartCluster(t).Client() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := start(t)
			if err := client.Set(t.Context(), "text", "stored", 0).Err(); err != nil {
				t.Fatal(err)
			}
			scripts := []*script.Script{named(t), named(t)}
			var calls []*script.Call
			for i := range n {
				call := &script.Call{Script: scripts[i%2], Keys: []string{fmt.Sprint("key", i)}, Args: []any{i}}
				if i == 7 {
					call.Args = []any{"wrong"}
				}
				calls = append(calls, call)
			}
			var stored, missing *redis.StringCmd
			err := script.Pipeline(t.Context(), client, calls, func(p redis.Pipeliner) {
				stored, missing = p.Get(t.Context(), "text"), p.Get(t.Context(), "no such key")
			})
			if err != nil || stored.Val() != "stored" || !errors.Is(missing.Err(), redis.Nil) {
				t.Errorf("ahead: %v, %q, %v", err, stored.Val(), missing.Err())
			}
			for i, call := range calls {
				if i == 7 {
					if call.Err == nil {
						t.Error("the wrong call has no error")
					}
				} else if call.Err != nil || call.Result.Text(0) != fmt.Sprint("key", i) || call.Result.Int(1) != int64(i) {
					t.Errorf("%d: %v, %v", i, call.Result, call.Err)
				}
			}
			if err := script.Pipeline(t.Context(), client, nil, func(p redis.Pipeliner) { p.Incr(t.Context(), "text") }); err == nil {
				t.Error("no error of a command ahead of the calls")
			}
		})
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	passing, final := redistest.ReplyError("LOADING"), errors.New("no")
	tries := 0
	err := script.Repeat(t.Context(), func() error {
		if tries++; tries < 3 {
			return passing
		}
		return final
	})
	if !errors.Is(err, final) || tries != 3 {
		t.Errorf("%v after %d tries, want %v after 3", err, tries, final)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	err = script.Repeat(ctx, func() error { cancel(why); return passing })
	if !errors.Is(err, why) || !errors.Is(err, passing) {
		t.Errorf("%v, want both errors", err)
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	r := script.Result{"text", int64(7), "9007199254740993", []any{int64(1), "b"}, nil}
	for i, want := range []struct {
		text string
		n    int64
	}{{"text", 0}, {"", 7}, {"9007199254740993", 9007199254740993}, {"", 0}, {"", 0}, {"", 0}} {
		if r.Text(i) != want.text || r.Int(i) != want.n {
			t.Errorf("field %d: %q, %d", i, r.Text(i), r.Int(i))
		}
	}
	if l := r.List(3); len(l) != 2 || !l.Bool(0) || l.Text(1) != "b" || r.List(0) != nil || r.List(9) != nil {
		t.Errorf("list: %v", l)
	}
	if got := r.Millis(1); got != 7*time.Millisecond {
		t.Errorf("%v, want 7ms", got)
	}
}

func TestScriptsAreFoundByTheirHash(t *testing.T) {
	t.Parallel()
	s := newScript("found", "return 'found'")
	text := s.Text()
	if text.Name != "found" || text.Source != "return 'found'" || text.Hash() != s.Hash() {
		t.Errorf("%+v", text)
	}
	if s.Hash() != redis.NewScript(text.Source).Hash() {
		t.Errorf("hash %s is not the SHA-1", s.Hash())
	}
}

package script_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

// each returns one text for each of its calls, which have a key and an argument each. The
// argument "wrong" fails the script. With "alone" in ARGV[1] it fails if calls share the command,
// and with "one" it returns too few results.
func each(t *testing.T) *script.Script {
	return newScript(t.Name(), "-- "+t.Name()+`
		local results = {}
		for i = 1, #KEYS do
			if ARGV[i + 1] == 'wrong' then return redis.error_reply('ERR wrong') end
			results[i] = KEYS[i] .. ' ' .. ARGV[i + 1]
		end
		if #KEYS > 1 and ARGV[1] == 'alone' then return redis.error_reply('CROSSSLOT not together') end
		if ARGV[1] == 'one' then return {results[1]} end
		return results`)
}

func calls(s *script.Script, shared string, args ...string) []*script.Call {
	all := make([]*script.Call, len(args))
	for i, arg := range args {
		all[i] = &script.Call{Script: s, Shared: []any{shared}, Keys: []string{fmt.Sprint("key", i)}, Args: []any{arg}}
	}
	return all
}

func numbered(n int) []string {
	args := make([]string, n)
	for i := range args {
		args[i] = fmt.Sprint("argument", i)
	}
	return args
}

func TestCallsShareCommands(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shared   string
		args     []string
		commands int // if Redis knows the script
	}{
		"none":                   {"", nil, 0},
		"one":                    {"", numbered(1), 1},
		"some":                   {"", numbered(32), 1},
		"many":                   {"", numbered(33), 2},
		"large":                  {"", []string{strings.Repeat("x", 200<<10), strings.Repeat("y", 200<<10), "z"}, 2},
		"large, encoded":         {"encoded", []string{strings.Repeat("x", 200<<10), strings.Repeat("y", 200<<10), "z"}, 2},
		"refused together":       {"alone", numbered(3), 4},
		"refused alone":          {"alone", numbered(1), 1},
		"one of them is refused": {"", []string{"a", "wrong", "c"}, 4},
		"a result is missing":    {"one", numbered(2), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, shared, faults := redistest.New(t), each(t), &redistest.Faults{}
			client.AddHook(faults)
			c := script.NewBatcher(client, 3)
			for round, known := range []bool{false, true} {
				faults.ResetCounts()
				all := calls(shared, test.shared, test.args...)
				if test.shared == "encoded" {
					for _, call := range all {
						call.Args[0] = []byte(call.Args[0].(string))
					}
				}
				c.DoAll(t.Context(), all)
				for i, call := range all {
					want := fmt.Sprintf("key%d %s", i, test.args[i])
					switch {
					case test.args[i] == "wrong":
						if call.Err == nil || !strings.Contains(call.Err.Error(), "ERR wrong") {
							t.Errorf("%s: %v", want, call.Err)
						}
					case test.shared == "one":
						if call.Err == nil {
							t.Errorf("%s: no error", want)
						}
					case call.Err != nil || call.Result.Text(0) != want:
						t.Errorf("round %d: got %.50v, %v; want %.50s", round, call.Result, call.Err, want)
					}
				}
				if n := faults.CountCommands(); known && n != test.commands {
					t.Errorf("%d commands, want %d", n, test.commands)
				}
			}
		})
	}
}

// A call with a lost reply, or one that Redis cannot carry out now, fails together with the calls
// that share its command, and no others.
func TestErrorOfASharedCommand(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{
		"lost": redistest.ErrLostReply, "loading": redistest.ReplyError("LOADING Redis is loading the dataset in memory"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, shared, faults := redistest.New(t), each(t), &redistest.Faults{}
			client.AddHook(faults)
			c := script.NewBatcher(client, 3)
			faults.FailBefore(redistest.Any, 1, want)
			all := calls(shared, "", numbered(3)...)
			c.DoAll(t.Context(), all)
			for _, call := range all {
				if !errors.Is(call.Err, want) {
					t.Errorf("%v, want %v", call.Err, want)
				}
			}
			if n := faults.CountCommands(); n != 1 {
				t.Errorf("%d commands: what may pass, or was carried out, is its caller's to repeat", n)
			}
		})
	}
}

package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/script"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Every script has a bound: what it does grows neither with the line, nor with what
// has ended, nor with the transcript, the stream or the texts, beyond a batch. So
// each situation runs with little and with much of it, and must not do more than
// twice the work.
func TestScriptsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFiller(t)
	t.Run("counted as Redis counts", f.countsAsRedis)
	seen := map[string]bool{}
	for _, s := range boundSituations() {
		t.Run(s.name, func(t *testing.T) {
			small, large := f.measure(t, s, s.size.small), f.measure(t, s, s.size.large)
			for name, of := range large {
				seen[name] = true
				if of.more(small[name]) {
					t.Errorf("%s does more of %d than of %d:\n%s\n%s", name, s.size.large, s.size.small, of, small[name])
				}
			}
		})
	}
	for _, s := range script.All() {
		if !seen[s.Name] {
			t.Errorf("no situation runs %s", s.Name)
		}
	}
}

// script is the one that the situation is of.
func (s wide) script() string {
	name, _, _ := strings.Cut(s.name, "/")
	name, _, _ = strings.Cut(name, " (")
	return name
}

// boundSituations are all, by the script and the situation.
func boundSituations() []wide {
	var all []wide
	for _, s := range situations() {
		name := strings.TrimSuffix(s.script+"/"+s.name, "/")
		all = append(all, wide{name + " (a long line)", lines, func(b *actors.Bench, f *filler, n int) func() error {
			move := s.prepare(b)
			f.surround(n)
			return move
		}}, wide{name + " (large texts)", texts, func(b *actors.Bench, f *filler, n int) func() error {
			move := s.prepare(b)
			f.weigh(n)
			return move
		}})
	}
	return append(append(all, wideSituations()...), resumeSituations()...)
}

// measure runs a situation with n of what it is about.
func (f *filler) measure(t *testing.T, s wide, n int) map[string]work {
	t.Helper()
	defer f.clean()
	b := f.bench(t)
	move := s.prepare(b, f, n)
	at := time.Now()
	works, err := f.count(move)
	expect.OK(t, err)
	_, whole := works[s.script()]
	if _, plain := works[s.script()+"_fast"]; !whole && !plain {
		t.Errorf("with %d it does not run %s", n, s.script())
	}
	for name, w := range works {
		t.Logf("%6d: %-12s %v in %v", n, name, w, time.Since(at).Round(time.Millisecond))
	}
	return works
}

// countsAsRedis compares what is counted of a script with Redis' own count.
func (f *filler) countsAsRedis(t *testing.T) {
	for _, s := range wideSituations() {
		switch s.script() {
		case "notify", "look": // nothing but their script is sent
		default:
			continue
		}
		b := f.bench(t)
		move := s.prepare(b, f, 20)
		expect.OK(t, f.rdb.ConfigResetStat(b.Ctx).Err())
		_, err := f.count(move)
		expect.OK(t, err)
		stats, err := f.rdb.Info(b.Ctx, "commandstats").Result()
		expect.OK(t, err)
		for _, line := range strings.Split(stats, "\r\n") {
			name, calls, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if name = strings.ToUpper(name); !ok || strings.ContainsAny(name, "|") || name == "EVAL" || name == "INFO" {
				continue
			}
			calls, _, _ = strings.Cut(calls, ",")
			expect.Equal(t, s.name+": calls of "+name, calls, fmt.Sprint(f.commands[name]))
			delete(f.commands, name)
		}
		expect.Equal(t, s.name+": calls that Redis does not know", fmt.Sprint(f.commands), "map[]")
		f.clean()
	}
}

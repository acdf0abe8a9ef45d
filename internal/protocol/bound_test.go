package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/internal/redis/script"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Every script is bounded: beyond a batch, its work does not grow with the queue, the ended
// messages, the transcript, the stream or the texts. Each situation runs with little and with much,
// and must not do more than twice the work.
func TestScriptsAreBounded(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
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

// script is the situation's script.
func (s wide) script() string {
	name, _, _ := strings.Cut(s.name, "/")
	name, _, _ = strings.Cut(name, " (")
	return name
}

// boundSituations returns all situations, by script and name.
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
	return slices.Concat(all, wideSituations(), resumeSituations(), outboxWide())
}

// measure runs a situation of size n.
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

// countsAsRedis compares the counts of a script's commands with Redis' own.
func (f *filler) countsAsRedis(t *testing.T) {
	for _, s := range wideSituations() {
		switch s.script() {
		case "accept", "look": // they send nothing but their script
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

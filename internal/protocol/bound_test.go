package protocol_test

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
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

// The end of a turn bounds the transcript when the turn has written much, with every 32nd entry,
// and always beyond the cap. In the last case it does not measure the transcript.
func TestWhenATranscriptIsBounded(t *testing.T) {
	t.Parallel()
	c, err := protocol.NewConsumer(redistest.New(t), protocol.Config{Worker: "w", TranscriptCap: 100, TranscriptBytes: 5000})
	expect.OK(t, err)
	two, large := []string{"12345", "67890"}, []string{strings.Repeat("x", 64<<10)}
	for _, turn := range []struct {
		before  int64
		entries []string
		want    string
	}{
		{0, two, ""},
		{29, two, ""},
		{30, two, "100 5000 10"},
		{31, two, "100 5000 10"},
		{32, two, ""},
		{0, large, "100 5000 65536"},
		{98, two, ""},
		{99, two, "100 5000 0"},
		{126, two, "100 5000 10"},
		{0, nil, ""},
		{32, nil, ""},
		{200, nil, "100 5000 0"},
	} {
		expect.Equal(t, "bounds", protocol.Bounds(c, turn.before, turn.entries), turn.want)
	}
}

// A call skips a bounded number of IDs without a task, and the next call continues.
func TestManyIDsWithoutTasks(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(b *actors.Bench){
		"claim": func(b *actors.Bench) {
			between(b, 1200)
			b.Say("now")
		},
		"finish": func(b *actors.Bench) {
			b.Say("first")
			h := b.Start()
			between(b, 1200)
			b.Say("now")
			expect.Equal(b, "the next turn is taken", b.Finish(h), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 10_000}))
			then(b)
			for b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val() > 500 {
				b.Redis.Del(b.Ctx, rediskey.Ready)
				claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
				expect.OK(t, err)
				expect.Equal(t, "claims, as the rest is another call's", len(claims), 0)
				expect.Equal(t, "workers are notified", b.IsIn(rediskey.Ready, actors.Key), true)
			}
			expect.List(t, "then", b.Drain(), "now")
			b.NothingLeft("at the end")
		})
	}
}

// The journal of a dead worker's turn goes into the transcript, however large it is.
func TestInterruptedWithALargeJournal(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	entries := []session.Entry{{Role: session.RoleUser, Text: "a"}}
	for range 12 {
		entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: strings.Repeat("x", 1<<20)})
	}
	expect.OK(t, actors.Checkpoint(b.Ctx, h, entries))
	b.Say("b", session.ModeInterrupt)
	b.Die()
	expect.List(t, "next", actors.MessageIDs(b.Claim()), "b")
	expect.Equal(t, "entries", b.Redis.LLen(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID)).Val(), 13)
	expect.Equal(t, "journals", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), 0)
	expect.Equal(t, "its end", b.Outcome("a").Status, session.StatusInterrupted)
}

// A lower transcript cap takes effect over several turns, on the fast path and the full path.
func TestTranscriptCapIsLoweredStepByStep(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]session.Status{"fast path": session.StatusDone, "full path": session.StatusInterrupted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 10 })
			b.Say("first")
			first := b.Start()
			b.Finish(first) // two entries
			entries := make([]any, 2498)
			for i := range entries {
				entries[i] = "{}"
			}
			transcript := b.Keys.Transcript(b.Info().TranscriptID)
			expect.OK(t, b.Redis.RPush(b.Ctx, transcript, entries...).Err())
			expect.OK(t, b.Redis.HIncrBy(b.Ctx, b.Keys.Run(), "entries", int64(len(entries))).Err())
			b.SayAll("a", "b", "c", "d")
			h := b.Start()
			var lengths []int64
			for more := true; more; {
				end := b.Done(h) // of two entries
				end.Status = status
				var err error
				more, err = h.Finish(b.Ctx, end)
				expect.OK(t, err)
				lengths = append(lengths, b.Redis.LLen(b.Ctx, transcript).Val())
			}
			expect.Equal(t, "lengths", fmt.Sprint(lengths), "[1500 500 10 10]")
		})
	}
}

//go:embed testdata/count.lua
var countLua string

// counted returns a script that also returns how much it has done.
func counted(source string) string {
	return strings.Replace(countLua, "-- the script\n", source+"\n", 1)
}

// work is the work of one call of a script, or the maximum of several calls.
type work struct {
	calls, elements, bytes int
	most                   string // the commands that touch the most elements
}

func (w work) String() string {
	return fmt.Sprintf("%d commands, %d elements, %d bytes (%s)", w.calls, w.elements, w.bytes, w.most)
}

// more reports whether w is more than twice as much as small, with an allowance for the edges of a
// batch. The allowance hides nothing that grows with 50,000 messages or with megabytes.
func (w work) more(small work) bool {
	return w.calls > 2*small.calls+200 || w.elements > 2*small.elements+1000 || w.bytes > 2*small.bytes+16<<10
}

func (w work) max(other work) work {
	if other.bytes+100*other.elements > w.bytes+100*w.elements {
		w.most = other.most
	}
	return work{max(w.calls, other.calls), max(w.elements, other.elements), max(w.bytes, other.bytes), w.most}
}

// errEnough ends a move that sends one batch after another.
var errEnough = errors.New("enough calls are counted")

// enoughCalls of a script show the work of one.
const enoughCalls = 3

// counter is a hook that replaces every known script with its counting text, and notes the keys in
// all commands.
type counter struct {
	tag, taskPrefix, idPrefix string // prefixes of the session's keys, tasks and task IDs

	mu       sync.Mutex
	on       bool
	works    map[string]work // by the script's name
	calls    map[string]int
	commands map[string]int // commands inside the scripts, by name, also those that only read
	touched  []string       // tasks
	seen     map[string]bool
}

func (c *counter) around(cmds []redis.Cmder, send func() error) error {
	names := make([]string, len(cmds))
	for i, cmd := range cmds {
		if names[i] = c.before(cmd); names[i] == errEnough.Error() {
			return errEnough
		}
	}
	err := send() // it may open a connection, which sends commands, too
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, cmd := range cmds {
		if names[i] != "" && cmd.Err() == nil {
			c.take(names[i], cmd)
		}
	}
	if err == nil {
		err = cmds[0].Err()
	}
	return err
}

func (c *counter) before(cmd redis.Cmder) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice(cmd)
	if name = c.replace(cmd); name != "" && c.calls[name] == enoughCalls {
		return errEnough.Error()
	}
	c.calls[name]++
	return name
}

// notice notes the session's keys in a command.
func (c *counter) notice(cmd redis.Cmder) {
	for _, arg := range cmd.Args() {
		s, ok := arg.(string)
		switch {
		case !ok || len(s) > 400:
		case strings.Contains(s, c.tag):
			c.seen[s] = true
		case strings.HasPrefix(s, c.idPrefix):
			c.seen[c.taskPrefix+s] = true
		}
	}
}

// replace turns the call of a script into a call of its counting text.
func (c *counter) replace(cmd redis.Cmder) (name string) {
	args := cmd.Args()
	if !c.on || cmd.Name() != "evalsha" {
		return ""
	}
	sha, _ := args[1].(string)
	s, ok := script.BySHA(sha)
	if !ok {
		return ""
	}
	args[0], args[1] = "eval", counted(s.Source)
	return s.Name
}

func (c *counter) take(name string, cmd redis.Cmder) {
	call, ok := cmd.(redistest.Reply)
	if !ok {
		return
	}
	a, _ := call.Val().([]any)
	n := func(i int) int { v, _ := a[i].(int64); return int(v) }
	text, _ := a[3].(string)
	var by struct {
		Calls  map[string][3]int
		Probes map[string]int
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "[]", "{}")), &by); err != nil {
		panic(err)
	}
	names, _ := a[4].([]any)
	for _, key := range names {
		c.touched = append(c.touched, fmt.Sprint(key))
	}
	for command, n := range by.Probes {
		c.commands[command] += n
	}
	for command, of := range by.Calls {
		c.commands[command] += of[0]
	}
	c.works[name] = work{n(0), n(1), n(2), heaviest(by.Calls)}.max(c.works[name])
	call.SetVal(a[5])
	if err, ok := a[5].(error); ok {
		call.SetErr(err)
	}
}

// heaviest names the three commands that touch the most.
func heaviest(by map[string][3]int) string {
	names := make([]string, 0, len(by))
	for name := range by {
		names = append(names, name)
	}
	weight := func(name string) int { return by[name][2] + 100*by[name][1] }
	sort.Strings(names)
	slices.SortStableFunc(names, func(a, b string) int { return weight(b) - weight(a) })
	var out []string
	for _, name := range names[:min(3, len(names))] {
		out = append(out, fmt.Sprintf("%s %d/%d/%d", name, by[name][0], by[name][1], by[name][2]))
	}
	return strings.Join(out, ", ")
}

// count runs a move and returns the work of its scripts.
func (c *counter) count(move func() error) (map[string]work, error) {
	c.mu.Lock()
	c.works, c.calls, c.commands, c.on = map[string]work{}, map[string]int{}, map[string]int{}, true
	c.mu.Unlock()
	err := move()
	if errors.Is(err, errEnough) {
		err = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	return c.works, err
}

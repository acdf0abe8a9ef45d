package protocol_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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

// The kinds of tasks that a session can be filled with. A capital letter is the same kind with a
// text of the largest size.
const (
	lineTask    = "l" // it waits for a running turn
	steerTask   = "s" // it waits to be steered in
	collectTask = "q" // it waits to be collected with others
	activeTask  = "a" // in a turn
	doneTask    = "c" // completed
	deadTask    = "d" // a dead letter
)

// filler fills one session with a given amount of everything, by copies. Its tasks stay from
// situation to situation: it renews only those that a script changed.
type filler struct {
	*counter
	t    *testing.T
	rdb  *redis.Client
	k    rediskey.Session
	have map[string]int  // tasks of each kind
	made map[string]bool // templates
}

func newFiller(t *testing.T) *filler {
	t.Helper()
	k := rediskey.For(actors.Key)
	f := &filler{
		t: t, rdb: redistest.StartServer(t).Client(), k: k, have: map[string]int{}, made: map[string]bool{},
		counter: &counter{
			tag: strings.TrimSuffix(strings.TrimPrefix(k.Sentinel(), "turnstile:"), "sentinel"), taskPrefix: k.TaskPrefix(), idPrefix: rediskey.IDPrefix(actors.Key),
			seen: map[string]bool{}, works: map[string]work{}, calls: map[string]int{},
		},
	}
	f.rdb.AddHook(actors.Hook(f.counter.around))
	b := f.bench(t)
	for _, kind := range []string{doneTask, deadTask, "C", "D"} {
		f.send(b, kind, "")
		status := session.StatusDone
		if strings.EqualFold(kind, deadTask) {
			status = session.StatusFailed
		}
		expect.OK(t, finishMove(b, b.Start(), status, true)())
	}
	f.send(b, activeTask, "")
	b.Start()
	for kind, mode := range map[string]session.Mode{
		lineTask: "", steerTask: session.ModeSteer, collectTask: session.ModeCollect, "L": "", "S": session.ModeSteer, "Q": session.ModeCollect,
	} {
		f.send(b, kind, mode)
	}
	for _, kind := range []string{doneTask, deadTask, activeTask, lineTask, steerTask, collectTask, "C", "D", "L", "S", "Q"} {
		expect.OK(t, f.rdb.Copy(b.Ctx, k.Task(b.Task(kind+"000000")), "model:"+kind, 0, true).Err())
		if entry, err := f.rdb.HGet(b.Ctx, k.Followups(), kind+"000000").Result(); err == nil {
			expect.OK(t, f.rdb.Set(b.Ctx, "follow:"+kind, entry, 0).Err())
		}
	}
	for _, kind := range []string{lineTask, steerTask, collectTask, activeTask, "L", "S", "Q"} {
		expect.OK(t, f.rdb.HSet(b.Ctx, "model:"+kind, "seq", 0).Err()) // all came before the message that steers
	}
	for _, kind := range []string{collectTask, "Q"} {
		expect.OK(t, f.rdb.HSet(b.Ctx, "model:"+kind, "quiet", "1 1000000").Err()) // their window is over
	}
	f.clean()
	return f
}

// bench returns a sender and a worker of that session, without limits.
func (f *filler) bench(t *testing.T, changes ...actors.Setup) *actors.Bench {
	t.Helper()
	unlimited := func(c *protocol.Config) {
		c.Line = session.QueueSettings{Cap: 1 << 20}
		c.TranscriptCap = 1 << 20
	}
	return actors.BenchOn(t, f.rdb, append([]actors.Setup{unlimited}, changes...)...)
}

func (f *filler) send(b *actors.Bench, kind string, mode session.Mode) {
	text := "hello"
	if kind < "a" {
		text = strings.Repeat("x", 1<<20)
	}
	_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: kind + "000000", Text: text, Mode: mode})
	expect.OK(b, err)
}

var copyLua = redis.NewScript(`
local prefix, kind = ARGV[1], ARGV[2]
local model = redis.call('HGETALL', 'model:' .. kind)
for i = 3, #ARGV do
  local id, t = string.format('%s%06d', kind, ARGV[i]), {}
  for j, v in ipairs(model) do t[j] = string.gsub(v, kind .. '000000', id) end
  redis.call('DEL', prefix .. id)
  redis.call('HSET', prefix .. id, unpack(t))
end
return #ARGV`)

// tasks makes sure that there are n tasks of a kind.
func (f *filler) tasks(kind string, n int) {
	var missing []int
	for i := f.have[kind]; i < n; i++ {
		missing = append(missing, i)
	}
	f.have[kind] = max(f.have[kind], n)
	f.copies(kind, missing)
}

func (f *filler) copies(kind string, numbers []int) {
	for len(numbers) > 0 {
		args := []any{f.k.TaskPrefix() + rediskey.IDPrefix(actors.Key), kind}
		part := numbers[:min(len(numbers), 5000)]
		numbers = numbers[len(part):]
		for _, i := range part {
			args = append(args, i)
		}
		expect.OK(f.t, copyLua.Run(f.t.Context(), f.rdb, nil, args...).Err())
	}
}

var templateLua = redis.NewScript(`
local key, shape, prefix, kind, from, to, score = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local entry = redis.call('GET', 'follow:' .. kind) or ''
for i = from, to - 1 do
  local id = string.format('%s%06d', kind, i)
  if shape == 'list' then
    redis.call('LPUSH', key, prefix .. id)
  elseif shape == 'zset' then
    redis.call('ZADD', key, score + i % 1000, prefix .. id)
  elseif shape == 'hash' then
    redis.call('HSET', key, id, (string.gsub(entry, kind .. '000000', id)))
  elseif shape == 'entries' then
    redis.call('RPUSH', key, '{"role":"user","text":"' .. string.rep('hello ', kind == 'E' and 170000 or 20) .. '","turn":"' .. prefix .. '"}')
  else
    redis.call('XADD', key, (i + 1) .. '-1', 'e', '{"type":"text","text":"hello","turn":"old"}')
  end
end
return to`)

// template makes a key with n members of a kind, once, and returns its name.
func (f *filler) template(shape, kind string, n int, score int64, prefix string) string {
	name := fmt.Sprintf("template:%s:%s:%d:%s:%d", shape, kind, n, prefix, score)
	if !f.made[name] {
		for from := 0; from < n; from += 5000 {
			expect.OK(f.t, templateLua.Run(f.t.Context(), f.rdb, []string{name}, shape, prefix, kind, from, min(from+5000, n), score).Err())
		}
		f.made[name] = true
	}
	return name
}

var mergeLua = redis.NewScript(`
local from, to, last = KEYS[1], KEYS[2], ARGV[1]
local kind = redis.call('TYPE', to).ok
if kind == 'list' then
  local old = redis.call('LRANGE', to, 0, -1)
  redis.call('COPY', from, to, 'REPLACE')
  for _, v in ipairs(old) do -- what is to be the newest
    redis.call(v == last and 'LPUSH' or 'RPUSH', to, v)
  end
elseif kind == 'zset' then
  local old = redis.call('ZRANGE', to, 0, -1, 'WITHSCORES')
  redis.call('COPY', from, to, 'REPLACE')
  for i = 1, #old, 2 do redis.call('ZADD', to, old[i + 1], old[i]) end
elseif kind == 'hash' then
  local old = redis.call('HGETALL', to)
  redis.call('COPY', from, to, 'REPLACE')
  redis.call('HSET', to, unpack(old))
else
  redis.call('COPY', from, to, 'REPLACE')
end
return 1`)

// put adds a template's members to a key. In a list they go before the older ones; if the newest is
// "new", it stays the newest.
func (f *filler) put(template, key string) {
	expect.OK(f.t, mergeLua.Run(f.t.Context(), f.rdb, []string{template, key}, f.idPrefix+"new").Err())
}

func (f *filler) exists(key string) bool { return f.rdb.Exists(f.t.Context(), key).Val() == 1 }

// line adds n tasks of a kind to the queue, with follow-ups if the kind has them.
func (f *filler) line(kind string, n int) {
	f.tasks(kind, n)
	f.put(f.template("list", kind, n, 0, f.idPrefix), f.k.Pending())
	if f.exists(f.k.Followups()) {
		f.put(f.template("hash", kind, n, 0, ""), f.k.Followups())
	}
}

// ended adds n dead letters or completed tasks.
func (f *filler) ended(kind string, n int, ago time.Duration) {
	f.tasks(kind, n)
	in := f.k.Completed()
	if strings.EqualFold(kind, deadTask) {
		in = f.k.Archived()
	}
	f.put(f.template("zset", kind, n, time.Now().Add(-ago).Unix()/1000*1000, f.idPrefix), in)
}

// past adds n entries to the session's transcript and as many events to its stream.
func (f *filler) past(kind string, n int) {
	ctx := f.t.Context()
	for _, record := range [][2]string{{f.k.Record(), "session_id"}, {f.k.Run(), "sid"}} {
		if id := f.rdb.HGet(ctx, record[0], record[1]).Val(); id != "" {
			f.seen[f.k.Transcript(id)] = true
			f.put(f.template("entries", kind, n, 0, "old"), f.k.Transcript(id))
			break
		}
	}
	expect.OK(f.t, f.rdb.Copy(ctx, f.template("stream", "", n, 0, ""), f.k.Events(), 0, true).Err())
}

// surround adds n of everything that a session can have many of. The caller adds delayed tasks.
func (f *filler) surround(n int) {
	f.line(lineTask, n)
	f.ended(deadTask, n, 0)
	f.ended(doneTask, n, -time.Hour)
	f.past("e", n)
	for _, zset := range []string{f.k.Scheduled(), f.k.Retry()} {
		if f.exists(zset) {
			f.put(f.template("zset", "z", n, time.Now().Add(time.Hour).Unix()/1000*1000, f.idPrefix), zset)
		}
	}
}

// weigh adds n messages, dead letters and results with texts of the largest size.
func (f *filler) weigh(n int) {
	f.line("L", n)
	f.ended("D", n, 0)
	f.ended("C", n, -time.Hour)
	f.past("E", n)
}

var filling = regexp.MustCompile(`-([a-zA-Z])(\d{6})$`)

// clean removes everything but the filling, and renews the tasks that a script changed.
func (f *filler) clean() {
	ctx := f.t.Context()
	f.mu.Lock()
	var names []string
	for name := range f.seen {
		if m := filling.FindStringSubmatch(name); m == nil || f.have[m[1]] == 0 {
			names = append(names, name)
		}
	}
	touched := f.touched
	f.seen, f.touched = map[string]bool{}, nil
	f.mu.Unlock()
	names = append(names, protocol.KeysOf(actors.Key, "")...)
	names = append(names, f.k.State(), rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Names, rediskey.Attention, rediskey.AllQueues)
	expect.OK(f.t, f.rdb.Unlink(ctx, names...).Err())
	again := map[string][]int{}
	for _, name := range touched {
		if m := filling.FindStringSubmatch(name); m != nil {
			i, err := strconv.Atoi(m[2])
			expect.OK(f.t, err)
			again[m[1]] = append(again[m[1]], i)
		}
	}
	for kind, numbers := range again {
		if f.have[kind] > 0 {
			f.copies(kind, numbers)
		}
	}
	f.mu.Lock()
	f.seen = map[string]bool{} // those of the cleaning itself
	f.mu.Unlock()
}

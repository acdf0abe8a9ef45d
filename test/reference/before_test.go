package reference_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/test/redistest"
)

// composed are the files of each script as it was before the scripts became a library.
var composed = map[string]string{
	"ring": "keys session events archive notes call", "stop": "keys session events archive notes stopped call",
	"rotate": "keys session notes", "title": "keys session", "configure": "keys session", "undo": "keys session call",
	"rerun": "keys session archive call", "discard": "keys session", "erase": "keys session", "answer": "keys session",
	"claim_plain": "", "finish_plain": "events transcript",
	"claim":   "keys session events lease line archive stopped cut notes",
	"unclaim": "keys session cut", "promote": "keys session owner asked", "renew": "keys session lease owner asked",
	"emit": "keys session events owner", "checkpoint": "keys session owner", "keep": "keys session owner", "ask": "keys session owner",
	"steer": "keys session line owner asked", "dismiss": "keys session events archive owner",
	"finish": "keys session events transcript line untaken archive stopped owner notes",
	"mark":   "keys session owner asked cut", "requeue": "keys session events archive owner asked cut",
	"trim": "keys session events archive", "look": "keys session lease", "purge": "keys session", "forget": "keys session",
	"admit": "", "past": "", "events_page": "", "index_due": "", "rescore": "", "look_after": "",
}

// before has the scripts as they were carry out each call as well, on a copy of the
// database, and compares what they return and leave.
type before struct {
	testing.TB
	now, old *redis.Client
	sources  map[string]string
	headers  map[string]lua.Header
	names    map[string]string // by the hash that is sent
	calls    *atomic.Int64
}

func newBefore(t testing.TB, r *redisOf, calls *atomic.Int64) *before {
	t.Helper()
	b := &before{
		TB: t, now: plainClient(t, r.rdb), old: plainClient(t, redistest.New(struct{ testing.TB }{t})),
		sources: map[string]string{}, headers: map[string]lua.Header{}, names: map[string]string{}, calls: calls,
	}
	for _, one := range script.All() {
		b.names[r.clock.hashes[one.Hash()]] = one.Name
	}
	sources, err := lua.Sources(lua.Files())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range sources {
		b.headers[name] = s.Header
	}
	for name, pieces := range composed {
		source := script.Prelude()
		for _, piece := range append(strings.Fields(pieces), name) {
			text, err := os.ReadFile(filepath.Join("testdata", "before", piece+".lua"))
			if err != nil {
				t.Fatal(err)
			}
			source += "\n" + string(text)
		}
		b.sources[name] = standIn(source)
	}
	return b
}

// plainClient is a client of the same database without hooks.
func plainClient(t testing.TB, rdb redis.UniversalClient) *redis.Client {
	t.Helper()
	client := redis.NewClient(rdb.(*redis.Client).Options())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return b.compare(cmd, func() error { return next(ctx, cmd) })
	}
}

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.ContainsFunc(cmds, isScript) {
			return next(ctx, cmds)
		}
		var failed error
		for _, cmd := range cmds {
			if err := b.compare(cmd, func() error { return next(ctx, []redis.Cmder{cmd}) }); err != nil && failed == nil {
				failed = err
			}
		}
		return failed
	}
}

// compare carries a call out on both sides.
func (b *before) compare(cmd redis.Cmder, carryOut func() error) error {
	if !isScript(cmd) {
		return carryOut()
	}
	sent := b.names[cmd.Args()[1].(string)]
	if _, ours := b.headers[sent]; !ours {
		return carryOut()
	}
	n := cmd.Args()[2].(int)
	name, keys, args := b.asBefore(sent, texts(cmd.Args()[3:3+n]), texts(cmd.Args()[3+n:]))
	source, tracked := b.sources[name]
	if !tracked {
		b.Fatalf("there was no script %s", name)
	}
	ctx := context.Background()
	words := []any{"eval", source, len(keys)}
	for _, word := range append(keys, args...) {
		words = append(words, word)
	}
	b.copyAll(ctx)
	was, oldErr := b.old.Do(ctx, words...).Result()
	err := carryOut()
	is, newErr := cmd.(*redis.Cmd).Result()
	is = asWas(name, is)
	if sent == "claim_fast" && strings.Contains(fmt.Sprint(is), "special") && strings.Contains(fmt.Sprintf("%q", was), `["turn"`) {
		return err // of a session with notes of dropped messages, which it leaves to the full path
	}
	b.calls.Add(1)
	what := fmt.Sprintf("%s %q", sent, cmd.Args()[3:])
	if fmt.Sprint(oldErr) != fmt.Sprint(newErr) && !(oldErr != nil && newErr != nil) {
		b.Fatalf("%s: error %v, before %v", what, newErr, oldErr)
	}
	if got, want := left(fmt.Sprintf("%q", trimmed(is))), left(fmt.Sprintf("%q", trimmed(was))); newErr == nil && got != want {
		b.Fatalf("%s:\nreturns %s,\nbefore  %s", what, got, want)
	}
	b.sameKeys(ctx, what)
	return err
}

// left takes out how long a sentinel lasts: that is by Redis' own clock.
func left(result string) string {
	if head, _, held := strings.Cut(result, `"held"`); held {
		return head
	}
	return result
}

// argsBefore are the names of ARGV as the scripts had them. The last one has all that
// follow; of what calls share, those after ; are of each session.
var argsBefore = map[string]string{
	"ring": "task id nonce followup mode prefix event_limits session found longest line_cap",
	"stop": "task prefix batch_limits number event_limits deadline longest", "rotate": "task fresh_sid sid deadline",
	"title": "task token fence title", "configure": "task settings", "undo": "task turn id msg sid entries length written",
	"rerun": "task statuses line_cap pairs*", "discard": "task ids*", "erase": "task fence size last", "answer": "task number decision name settle",
	"claim_plain":  "ttl worker phase mode cap drop debounce warm longest task token fresh_sid",
	"finish_plain": "event_limits transcript_cap transcript_ttl phase longest transcript_bytes count task token fence id msg outcome following_fence now score total done start entries*",
	"claim":        "task token ttl worker phase prefix mode cap stuck_limit fresh_sid event_limits retention drop debounce crash_suspends warm stop_batch turn_limits longest",
	"unclaim":      "task token prefix", "promote": "task token fence ttl", "renew": "task token fence ttl",
	"emit": "task token fence ttl number event_limits batch*", "checkpoint": "task token fence ttl content partial_ttl",
	"keep": "task token fence ttl content state_ttl", "ask": "task token fence ttl nth question",
	"steer": "task token fence ttl prefix most room longest known*", "dismiss": "task token fence ttl id why outcome event_limits own",
	"finish": "task token fence outcome start limits phase rest words*", "mark": "task token fence ttl reason stuck_limit",
	"requeue": "task token fence prefix wait attempts why event event_limits start content partial_ttl reason stuck_limit ids*",
	"trim":    "task prefix line_cap event_limits longest", "look": "task", "purge": "task batch archive_ttl", "forget": "task age",
	"admit": "most", "past": "oldest room", "events_page": "after room", "index_due": "batch", "rescore": "thirds*", "look_after": "ttl sessions*",
}

// renamed are the names that scripts had.
var renamed = map[string]string{"notify": "ring", "claim_fast": "claim_plain", "finish_fast": "finish_plain"}

// sessionKeys are the KEYS of a session's scripts as they were.
var sessionKeys = strings.Fields("sentinel run record followups resume events transcript partial pending active lease paused scheduled retry completed " +
	"processed processed_day archived failed failed_day stopped")

// keysBefore are those of the others, and what comes behind a session's.
var keysBefore = map[string]string{
	"claim_plain":  "sentinel run followups resume partial paused scheduled active record pending",
	"finish_plain": "sentinel run followups paused scheduled retry events transcript pending active completed processed processed_day",
	"ring":         "* call", "stop": "* call", "undo": "* call", "rerun": "* call", "forget": "* state", "keep": "* state", "erase": "* others",
	"past": "transcript", "events_page": "events", "index_due": "index", "rescore": "index", "look_after": "index", "admit": "waiting",
}

// asBefore is a call as it was: its script's name, KEYS and ARGV.
func (b *before) asBefore(now string, keys, words []string) (name string, oldKeys, oldArgs []string) {
	if name = now; renamed[now] != "" {
		name = renamed[now]
	}
	h := b.headers[now]
	given := map[string][]string{}
	for i, key := range h.Keys {
		if list, all := strings.CutSuffix(key, "..."); all {
			given[list] = keys[i:]
		} else {
			given[key] = keys[i : i+1]
		}
	}
	session, _, ok := rediskey.Parse(keys[0])
	k := rediskey.For(session)
	day := time.Now().UTC().Format(":2006-01-02")
	known := map[string]string{
		"sentinel": k.Sentinel(), "run": k.Run(), "record": k.Record(), "followups": k.Followups(), "resume": k.Resume(), "events": k.Events(), "partial": k.Partial(),
		"pending": k.Pending(), "active": k.Active(), "lease": k.Lease(), "paused": k.Paused(), "scheduled": k.Scheduled(), "retry": k.Retry(),
		"completed": k.Completed(), "processed": k.Processed(), "archived": k.Archived(), "failed": k.Failed(), "stopped": k.Stopped(),
		"state": k.State(), "processed_day": k.Processed() + day, "failed_day": k.Failed() + day, "transcript": k.Transcript("no"),
	}
	names := keysBefore[name]
	if names == "" {
		names = "*"
	}
	if name == "erase" {
		given["others"] = append(given["others"], k.State())
	}
	for _, key := range strings.Fields(strings.Replace(names, "*", strings.Join(sessionKeys, " "), 1)) {
		switch {
		case given[key] != nil:
			oldKeys = append(oldKeys, given[key]...)
		case ok && known[key] != "":
			oldKeys = append(oldKeys, known[key])
		}
	}

	args, lists := map[string]string{}, map[string][]string{}
	for _, arg := range append(slices.Clone(h.Args), h.Each...) {
		if arg.Kind == lua.List || arg.Kind == lua.Range {
			n, err := strconv.Atoi(words[0])
			if err != nil {
				b.Fatal(err)
			}
			lists[arg.Name], words = words[1:1+n], words[1+n:]
		} else {
			args[arg.Name], words = words[0], words[1:]
		}
	}
	args["task"] = k.TaskPrefix()
	switch name {
	case "rerun":
		for i := range lists["ids"] {
			lists["pairs"] = append(lists["pairs"], lists["ids"][i], lists["arrived"][i])
		}
	case "rescore":
		lists["thirds"] = slices.Concat(lists["members"], lists["were"], lists["to"])
	case "finish_plain":
		args["count"] = fmt.Sprint(len(lists["entries"]))
	case "finish":
		number := func(name string) int64 {
			n, err := strconv.ParseInt(args[name], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
		rest := map[string]any{
			"ttl": number("ttl"), "retention": number("retention"), "done": args["well"] == "1", "sid": args["sid"], "noted": args["noted"] == "1",
			"told": number("told_ids"), "omitted": number("omitted"), "ending": len(lists["ending"]), "back": len(lists["untaken"]), "prefix": args["prefix"],
		}
		if args["why"] != "" {
			rest["archive"] = args["why"]
		}
		if args["short_outcome"] != "" {
			rest["result"] = args["short_outcome"]
		}
		text, err := json.Marshal(rest)
		if err != nil {
			b.Fatal(err)
		}
		events := strings.Fields(args["event_limits"])
		args["rest"] = string(text)
		args["limits"] = strings.Join([]string{events[0], args["transcript_cap"], args["transcript_ttl"], args["turn_limits"], args["longest"],
			args["transcript_bytes"], events[1], events[2]}, " ")
		if args["release"] == "1" {
			args["phase"] = ""
		}
		lists["words"] = slices.Concat(lists["ending"], lists["untaken"], lists["entries"])
	}
	for _, arg := range strings.Fields(argsBefore[name]) {
		list, all := strings.CutSuffix(arg, "*")
		word, one := args[arg]
		switch {
		case all:
			oldArgs = append(oldArgs, lists[list]...)
		case one:
			oldArgs = append(oldArgs, word)
		default:
			b.Fatalf("%s had an argument %s", name, arg)
		}
	}
	return name, oldKeys, oldArgs
}

func texts(words []any) []string {
	list := make([]string, len(words))
	for i, w := range words {
		if list[i] = fmt.Sprint(w); reflect.TypeOf(w).Kind() == reflect.Slice {
			list[i] = string(w.([]byte))
		}
	}
	return list
}

// asWas is a result as it was.
func asWas(was string, result any) any {
	list, ok := result.([]any)
	if !ok || len(list) == 0 {
		return result
	}
	switch was {
	case "admit", "rescore", "forget":
		return list[0]
	case "finish_plain":
		if one, _ := list[0].([]any); len(one) > 1 && one[0] == "following" {
			one[0] = "next"
		}
	case "requeue", "mark":
		if list[0] == "requested" {
			list[0] = "asked"
		}
	}
	return result
}

// trimmed leaves out zeros at the end of lists within a list: they mean as much if they
// are not there.
func trimmed(result any) any {
	list, ok := result.([]any)
	if !ok {
		return result
	}
	var short []any
	for _, e := range list {
		if inner, ok := trimmed(e).([]any); ok {
			for len(inner) > 3 && inner[len(inner)-1] == int64(0) {
				inner = inner[:len(inner)-1]
			}
			e = inner
		}
		short = append(short, e)
	}
	return short
}

const copyAll = `
for _, k in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', k, k, 'DB', ARGV[1], 'REPLACE') end
return 1`

func (b *before) copyAll(ctx context.Context) {
	b.Helper()
	if err := b.old.FlushDB(ctx).Err(); err != nil {
		b.Fatal(err)
	}
	if err := b.now.Eval(ctx, copyAll, nil, strconv.Itoa(b.old.Options().DB)).Err(); err != nil {
		b.Fatal(err)
	}
}

const dumpAll = `
local all = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', k).ok
  local content
  if kind == 'string' then content = redis.call('GET', k)
  elseif kind == 'list' then content = redis.call('LRANGE', k, 0, -1)
  elseif kind == 'hash' then content = redis.call('HGETALL', k)
  elseif kind == 'set' then content = redis.call('SMEMBERS', k) table.sort(content)
  elseif kind == 'zset' then content = redis.call('ZRANGE', k, 0, -1, 'WITHSCORES')
  else
    content = redis.call('XRANGE', k, '-', '+')
    for _, e in ipairs(content) do e[1] = '' end
  end
  all[#all + 1] = {k, kind, content, redis.call('PTTL', k)}
end
return all`

// content is what a database has: of each key its content and how long it lives, ms.
type content struct {
	text string
	ttl  int64
}

// chance is what two runs of one script do not have in common: ids of the stream.
var chance = regexp.MustCompile(`\d{13}-\d+`)

// defaults are fields of the run record that mean as much if they are not there.
var defaults = map[string]string{"special": "", "rotated": "", "hold": "", "entries": "0", "done": "0", "warm": "0", "drop": "new"}

func contents(t testing.TB, rdb *redis.Client) map[string]content {
	t.Helper()
	list, err := rdb.Eval(context.Background(), dumpAll, nil).Slice()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]content{}
	for _, one := range list {
		row := one.([]any)
		text := fmt.Sprintf("%q", row[2])
		if fields, _ := row[2].([]any); row[1] == "hash" {
			text = ""
			var pairs []string
			for i := 0; i+1 < len(fields); i += 2 {
				value := fields[i+1]
				if missing, ok := defaults[fields[i].(string)]; ok && strings.HasSuffix(row[0].(string), ":run") && value == missing {
					continue
				}
				if key, _ := strings.CutSuffix(row[0].(string), ":session"); key != row[0] && fields[i] == "updated_at" {
					continue // a first turn's record leaves it out: forget takes created_at
				}
				pairs = append(pairs, fmt.Sprintf("%s=%q", fields[i], chance.ReplaceAllString(fields[i+1].(string), "ID")))
			}
			slices.Sort(pairs)
			text = strings.Join(pairs, " ")
		}
		all[row[0].(string)] = content{text, row[3].(int64)}
	}
	return all
}

func (b *before) sameKeys(_ context.Context, what string) {
	b.Helper()
	is, was := contents(b, b.now), contents(b, b.old)
	for _, key := range slices.Compact(slices.Sorted(joined(maps.Keys(is), maps.Keys(was)))) {
		if strings.HasPrefix(key, rediskey.Timer("")) { // it ends at any moment
			continue
		}
		got, want := is[key], was[key]
		if got.text != want.text || max(got.ttl-want.ttl, want.ttl-got.ttl) > 2000 {
			b.Fatalf("%s:\nleaves in %s %s, %d ms;\nbefore %s, %d ms", what, key, got.text, got.ttl, want.text, want.ttl)
		}
	}
}

func joined(a, b func(func(string) bool)) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range a {
			if !yield(k) {
				return
			}
		}
		for k := range b {
			if !yield(k) {
				return
			}
		}
	}
}

// TestAsBefore shows that the scripts return and leave what they did before they became
// a library, in the states and calls of random lives.
func TestAsBefore(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	lives, err := strconv.ParseUint(os.Getenv("REFERENCE_LIVES"), 10, 32)
	if err != nil {
		lives = 60
	}
	var calls atomic.Int64
	const parts = 2
	t.Run("lives", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
				t.Parallel()
				r := newRedis(t, nil)
				r.rdb.AddHook(newBefore(t, r, &calls)) // the innermost: it sees what is sent
				for seed := part; seed < lives; seed += parts {
					_ = r.live(randomLife(10_000+seed, lifeOps)) // TestLives compares it with the model
				}
			})
		}
	})
	t.Logf("%d calls of scripts in %d lives", calls.Load(), lives)
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// manyLines is a file of n messages for each of several sessions, interleaved.
func manyLines(sessions, n int) string {
	var b strings.Builder
	for i := range n {
		for s := range sessions {
			fmt.Fprintf(&b, `{"session":"s%d","text":"%d","id":"m%d"}`+"\n", s, i, i)
		}
	}
	return b.String()
}

func TestAFileKeepsTheOrderWithinEachSession(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	const sessions, n = 50, 20
	file := writeFile(t, manyLines(sessions, n))
	r := enqueue(t, bg(t), url, "", "--file", file).want(t, exitOK)
	if r.out != "1000 sent (1000 accepted)\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
	var mu sync.Mutex
	got := map[string][]string{}
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		mu.Lock()
		defer mu.Unlock()
		got[h.Session()] = append(got[h.Session()], h.Turn().Message.Text)
		return echo(h)
	})
	// The same file again waits for the stored results.
	r = enqueue(t, bg(t), url, "", "--file", file, "--wait", "--json").want(t, exitOK)
	ends := map[string]bool{}
	for _, o := range r.objects(t) {
		if text(o, "status") == "done" {
			ends[text(o, "session")+" "+text(o, "reply")] = true
		}
	}
	if len(ends) != sessions*n {
		t.Errorf("%d ends", len(ends))
	}
	mu.Lock()
	defer mu.Unlock()
	for s, texts := range got {
		for i, text := range texts {
			if text != fmt.Sprint(i) {
				t.Fatalf("session %s ran %v", s, texts)
			}
		}
		if len(texts) != n {
			t.Fatalf("session %s ran %v", s, texts)
		}
	}
}

func TestBadLinesAreReportedAndTheOthersGoIn(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	lines := []string{
		"\ufeff" + `{"session":"a","text":"with a byte order mark","id":"ok1"}`,
		`nonsense`,
		``,
		`{"session":"a","text":"x","colour":"red"}`,
		`{"text":"no session"}`,
		`{"session":"a/b","text":"x"}`,
		`{"session":"a","text":" "}`,
		`{"session":"a","text":"` + strings.Repeat("x", 2<<20) + `"}`,
		`{"session":"a","text":"` + strings.Repeat("x", maxLine) + `"}`,
		`{"session":"a","text":"x","id":""}`,
		`{"session":"a","text":"x","mode":"steal"}`,
		`{"session":"a","text":"x","in":"-1s"}`,
		`{"session":"a","text":"x","in":10}`,
		`{"session":"a","text":"x","expires_in":"soon"}`,
		`{"session":"a","text":"x","meta":{"k":1}}`,
		`{"session":"a","text":"x","attachments":[{"name":"n"}]}`,
		`{"session":"a","text":"x"} {"session":"a","text":"y"}`,
		`["session"]`,
		"{\"session\":\"a\",\"text\":\"\xff\"}",
		`  {"session":"a","text":"blanks and a carriage return","id":"ok2"}  ` + "\r",
		`   `,
		`{"session":"a","text":"no break at the end","id":"ok3"}`,
	}
	says := map[int]string{
		5: `it has no session: write "session", or give -s`, 13: `"in" must be a string, such as "10s"`, 15: `"meta.k" must be a string`,
		14: `invalid duration "soon": write it as 500ms, 90s, 10m, 1h30m or 30d`,
	}
	bad := []int{2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	r := enqueue(t, bg(t), url, strings.Join(lines, "\n"), "--file", "-", "--json").want(t, exitUsage)
	var reported []int
	for line := range strings.Lines(r.err) {
		var n int
		if _, err := fmt.Sscanf(line, "enqueue: line %d: ", &n); err != nil || !strings.Contains(line, "invalid") && !strings.Contains(line, "more than") {
			t.Errorf("stderr %q", line)
		}
		if !strings.Contains(line, says[n]) {
			t.Errorf("stderr %q lacks %q", line, says[n])
		}
		reported = append(reported, n)
	}
	if !slices.Equal(reported, bad) {
		t.Errorf("reported %v, want %v", reported, bad)
	}
	var objects []int
	for _, o := range r.objects(t) {
		n, _ := o["line"].(float64)
		if o["error"] != nil {
			objects = append(objects, int(n))
		}
	}
	slices.Sort(objects)
	if !slices.Equal(objects, bad) {
		t.Errorf("objects %v, want %v", objects, bad)
	}
	ids, err := rdb.LRange(context.Background(), rediskey.For("a").Pending(), 0, -1).Result()
	slices.Reverse(ids)
	if want := []string{rediskey.TaskID("a", "ok1"), rediskey.TaskID("a", "ok2"), rediskey.TaskID("a", "ok3")}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("pending %v, want %v", ids, want)
	}
	r = enqueue(t, bg(t), url, strings.Join(lines, "\n"), "--file", "-").want(t, exitUsage)
	if r.out != "0 sent, 3 duplicates, 17 bad lines\n" {
		t.Errorf("stdout %q", r.out)
	}
}

func TestFlagsAreTheDefaultsOfLines(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	file := `{"text":"plain","id":"1"}` + "\n" +
		`{"session":"b","text":"own","id":"2","mode":"queue","meta":{"k":"own"},"in":"0d","expires_in":"2d1h","attachments":[{"name":"a","url":"https://example.org/a","size":3}]}` + "\n"
	enqueue(t, bg(t), url, file, "--file", "-", "-s", "a", "--mode", "reject", "--meta", "k=flag", "--meta", "l=flag", "--in", "1h", "--expires-in", "3h").want(t, exitOK)
	inspector := asynq.NewInspectorFromRedisClient(rdb)
	for key, c := range map[string]struct{ id, want string }{
		"a": {"1", `{"v":1,"text":"plain","mode":"reject","meta":{"k":"flag","l":"flag"},"expires_in":"3h0m0s"}`},
		"b": {"2", `{"v":1,"text":"own","mode":"queue","meta":{"k":"own","l":"flag"},"attachments":[{"name":"a","url":"https://example.org/a","size":3}],"expires_in":"49h0m0s"}`},
	} {
		info, err := inspector.GetTaskInfo(rediskey.Queue(key), rediskey.TaskID(key, c.id))
		if err != nil || string(info.Payload) != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", key, err, info.Payload, c.want)
		}
		if want := map[string]asynq.TaskState{"a": asynq.TaskStateScheduled, "b": asynq.TaskStatePending}[key]; info.State != want {
			t.Errorf("%s: %v", key, info.State)
		}
	}
}

func TestAFileWithReplies(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	file := `{"session":"a","text":"two\nlines","id":"1"}
{"session":"b","text":"fail badly","id":"2"}
{"session":"c","text":"/status"}
`
	for _, flag := range []string{"--wait", "--follow"} {
		r := enqueue(t, bg(t), url, file, "--file", "-", flag).want(t, exitEnded)
		for _, part := range []string{"a 1: echo: two\na 1: lines\n", "c: Idle: nothing runs, nothing waits.\n"} {
			if !strings.Contains(r.out, part) {
				t.Errorf("%s: stdout %q lacks %q", flag, r.out, part)
			}
		}
		if !strings.HasSuffix(r.out, ", 1 command, 1 done, 1 failed\n") {
			t.Errorf("%s: stdout %q", flag, r.out)
		}
		if r.err != "enqueue: line 2: message 2 failed: badly\n" {
			t.Errorf("%s: stderr %q", flag, r.err)
		}
	}
}

// More messages than can be awaited at once, and one session that hangs.
func TestAnswersComeAsTheyEnd(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	hang := make(chan struct{})
	unhang := sync.OnceFunc(func() { close(hang) })
	defer unhang()
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		if h.Session() == "s0" {
			<-hang
		}
		return echo(h)
	})
	stdout := watched.NewOutput()
	code := make(chan int, 1)
	go func() {
		code <- run(bg(t), []string{"--file", "-", "--wait", "--json"}, strings.NewReader(manyLines(3, 100)), stdout, io.Discard, []string{"REDIS_URL=" + url})
	}()
	ended := func(text string) (all, hanging int) {
		for line := range strings.Lines(text) {
			var o struct{ Session, Status string }
			if err := json.Unmarshal([]byte(line), &o); err == nil && o.Status == "done" {
				all++
				if o.Session == "s0" {
					hanging++
				}
			}
		}
		return all, hanging
	}
	stdout.Until(t, "200 that are done", func(text string) bool { // all but those of s0
		all, hanging := ended(text)
		if hanging > 0 {
			t.Error("s0 was to hang")
		}
		return all >= 200
	})
	unhang()
	c := <-code
	done, _ := ended(stdout.String())
	if c != exitOK || done != 300 {
		t.Errorf("exit code %d after %d answers", c, done)
	}
}

func TestTimeoutOfAFile(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	r := enqueue(t, bg(t), url, manyLines(2, 100), "--file", "-", "--wait", "--timeout", "200ms", "--json").want(t, exitTimeout)
	n := 0
	for _, o := range r.objects(t) {
		if o["code"] == 4.0 && text(o, "id") != "" && text(o, "session") != "" {
			n++
		}
	}
	if n != 200 {
		t.Errorf("%d timed out", n)
	}
	if n := rdb.LLen(context.Background(), rediskey.For("s0").Pending()).Val(); n != 100 {
		t.Errorf("%d pending", n)
	}
}

func TestTheCodeOfAFile(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	enqueue(t, bg(t), url, "", "-s", "busy", "x").want(t, exitOK)
	occupy(t, url, "busy", hour)
	refused := `{"session":"busy","text":"x","mode":"reject"}` + "\n"
	bad := "nonsense\n"
	good := `{"session":"a","text":"x","id":"1"}` + "\n"
	for _, c := range []struct {
		file string
		code int
		out  string
	}{
		{"", exitOK, "0 sent\n"},
		{good, exitOK, "1 sent (1 accepted)\n"},
		{good + good, exitOK, "0 sent, 2 duplicates\n"},
		{`{"session":"s","text":"x","in":"1h"}` + "\n", exitOK, "1 sent (1 delayed)\n"},
		{good + bad, exitUsage, "0 sent, 1 duplicate, 1 bad line\n"},
		{bad + refused + good, exitRefused, "0 sent, 1 duplicate, 1 refused, 1 bad line\n"},
	} {
		r := enqueue(t, bg(t), url, c.file, "--file", "-").want(t, c.code)
		if r.out != c.out {
			t.Errorf("%q: stdout %q, want %q", c.file, r.out, c.out)
		}
	}
}

func TestCtrlCInAFile(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	ctx, cancel := context.WithCancel(bg(t))
	finish := make(chan result, 1)
	go func() { finish <- enqueue(t, ctx, url, manyLines(100, 200), "--file", "-", "--json", "--wait") }()
	expect.Soon(t, "20 sessions in the ready index", func() bool { return rdb.ZCard(context.Background(), rediskey.Ready).Val() > 20 })
	cancel()
	r := <-finish
	r.want(t, exitInterrupted)
	if !strings.Contains(r.err, "interrupted; sent messages stay") {
		t.Errorf("stderr %q", r.err)
	}
	known := map[string]bool{}
	for _, o := range r.objects(t) {
		if text(o, "id") != "" {
			known[text(o, "session")+" "+text(o, "id")] = true
		}
	}
	stored := 0
	for s := range 100 {
		key := fmt.Sprintf("s%d", s)
		ids, err := rdb.LRange(context.Background(), rediskey.For(key).Pending(), 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(ids)
		for i, id := range ids {
			stored++
			if id != rediskey.TaskID(key, fmt.Sprintf("m%d", i)) {
				t.Fatalf("session %s has %v", key, ids)
			}
			if !known[key+fmt.Sprintf(" m%d", i)] {
				t.Errorf("%s of %s is stored, and nothing was said of it", id, key)
			}
		}
	}
	if stored == 0 || stored < len(known) {
		t.Errorf("%d stored, %d told of", stored, len(known))
	}
}

// Redis fills up while a file is sent: acknowledged messages are stored, and every other line
// is reported as an error.
func TestB85_AFileIntoARedisThatFillsUp(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	var file strings.Builder
	const total = 4000
	for i := range total {
		fmt.Fprintf(&file, `{"session":"s%d","text":"%s","id":"m%d"}`+"\n", i%40, strings.Repeat("x", 2000), i)
	}
	r := enqueue(t, bg(t), server.URL(), file.String(), "--file", "-", "--json").want(t, exitOther)
	if !strings.Contains(r.err, "out of memory") || !strings.Contains(r.err, "not sent: ") {
		t.Errorf("stderr %q", r.err)
	}
	checkAcknowledged(t, server.URL(), r)
}

// checkAcknowledged checks that every message that the program reported as stored exists, in any
// state.
func checkAcknowledged(t *testing.T, url string, r result) (states map[asynq.TaskState]int) {
	t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(client(t, url))
	states = map[asynq.TaskState]int{}
	n := 0
	for _, o := range r.objects(t) {
		switch receipt.Status(text(o, "status")) {
		case receipt.Accepted, receipt.Queued, receipt.Scheduled, receipt.Duplicate:
		default:
			continue
		}
		n++
		key, id := text(o, "session"), text(o, "id")
		info, err := inspector.GetTaskInfo(rediskey.Queue(key), rediskey.TaskID(key, id))
		if err != nil {
			t.Errorf("%s of %s was acknowledged: %v", id, key, err)
			continue
		}
		states[info.State]++
		if info.State == asynq.TaskStateArchived && info.LastErr == "" {
			t.Errorf("%s of %s is archived without a reason", id, key)
		}
	}
	if n == 0 {
		t.Error("nothing was acknowledged")
	}
	return states
}

// Senders, turns that fail, and /stop run at the same time.
func TestB85_NothingAcknowledgedIsDropped(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	var file strings.Builder
	for i := range 400 {
		switch {
		case i%40 == 39:
			fmt.Fprintf(&file, `{"session":"s%d","text":"/stop"}`+"\n", i%10)
		case i%7 == 0:
			fmt.Fprintf(&file, `{"session":"s%d","text":"fail on purpose","id":"m%d"}`+"\n", i%10, i)
		default:
			fmt.Fprintf(&file, `{"session":"s%d","text":"x","id":"m%d"}`+"\n", i%10, i)
		}
	}
	r := enqueue(t, bg(t), url, file.String(), "--file", "-", "--json", "--wait")
	r.want(t, exitEnded)
	states := checkAcknowledged(t, url, r)
	if states[asynq.TaskStateCompleted]+states[asynq.TaskStateArchived] != 390 || states[asynq.TaskStateArchived] == 0 {
		t.Errorf("states %v", states)
	}
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	url := redistest.StartCluster(t).URL()
	turns(t, url, hour, echo)
	if r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", "hello").want(t, exitOK); r.out != "echo: hello\n" {
		t.Errorf("%+v", r)
	}
	r := enqueue(t, bg(t), url, manyLines(20, 5), "--file", "-", "--wait").want(t, exitOK)
	if !strings.HasSuffix(r.out, ", 100 done\n") {
		t.Errorf("stdout %q", r.out)
	}
}

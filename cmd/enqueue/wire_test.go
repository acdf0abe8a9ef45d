package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
)

// These tests are a sender that uses only docs/wire.md: names and commands are copied from it.

const (
	wireQueue  = "session:s1"
	wirePrefix = "e8bc163c-"
	wireTask   = "asynq:{session:s1}:t:" + wirePrefix
	wireEvents = "turnstile:{session:s1}:events"
)

func wireDoc(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// wireScript is the Lua block of the page that begins with "-- name".
func wireScript(t *testing.T, name string) string {
	t.Helper()
	_, script, ok := strings.Cut(wireDoc(t), "```lua\n-- "+name+"\n")
	script, _, ended := strings.Cut(script, "```")
	if !ok || !ended {
		t.Fatalf("docs/wire.md has no script %s", name)
	}
	return script
}

// wireMessage is the protobuf message of the page's table.
func wireMessage(id, payload string) string {
	var b []byte
	for _, f := range []struct {
		number protowire.Number
		value  string
	}{{1, "turnstile:message"}, {2, payload}, {3, id}, {4, wireQueue}} {
		b = protowire.AppendTag(b, f.number, protowire.BytesType)
		b = protowire.AppendString(b, f.value)
	}
	b = protowire.AppendTag(b, 5, protowire.VarintType)
	b = protowire.AppendVarint(b, 2)
	b = protowire.AppendTag(b, 8, protowire.VarintType)
	b = protowire.AppendVarint(b, 1800)
	return string(b)
}

// rawClient sends the page's commands.
type rawClient struct {
	t   *testing.T
	rdb redis.UniversalClient
}

func (w rawClient) do(args ...any) any {
	w.t.Helper()
	reply, err := w.rdb.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		w.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// enqueue is the page's steps 1 to 3.
func (w rawClient) enqueue(id, payload string) (stored int64) {
	w.t.Helper()
	w.do("SADD", "asynq:queues", wireQueue)
	stored, _ = w.do("EVAL", wireScript(w.t, "enqueue"), 2, wireTask+id, "asynq:{session:s1}:pending",
		wireMessage(wirePrefix+id, payload), wirePrefix+id, time.Now().UnixNano()).(int64)
	w.do("SADD", "asynq:queues", wireQueue)
	return stored
}

// now is the page's step 4.
func (w rawClient) now() int64 {
	w.t.Helper()
	reply, _ := w.do("TIME").([]any)
	seconds, err1 := strconv.ParseInt(reply[0].(string), 10, 64)
	micros, err2 := strconv.ParseInt(reply[1].(string), 10, 64)
	if err1 != nil || err2 != nil {
		w.t.Fatal(err1, err2)
	}
	return seconds*1000 + micros/1000
}

// notify sends the page's steps 5 to 7.
func (w rawClient) notify() {
	w.t.Helper()
	now := w.now()
	w.do("ZADD", "turnstile:sessions", now, "s1")
	w.do("ZADD", "turnstile:owned", "NX", now+15000, "s1")
	w.do("ZADD", "turnstile:ready", "NX", now, "s1")
}

// answer waits for the end of a message on the stream.
func (w rawClient) answer(id string) map[string]any {
	w.t.Helper()
	last := "0"
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		streams, err := w.rdb.XRead(context.Background(), &redis.XReadArgs{Streams: []string{wireEvents, last}, Block: 5 * time.Second}).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, m := range streams[0].Messages {
			last = m.ID
			var e map[string]any
			if err := json.Unmarshal([]byte(m.Values["e"].(string)), &e); err != nil {
				w.t.Fatal(err)
			}
			ids, _ := e["messages"].([]any)
			if e["type"] == "turn_ended" && len(ids) == 1 && ids[0] == id {
				return e
			}
		}
	}
	w.t.Fatalf("message %s did not end", id)
	return nil
}

// result reads state and result with HMGET.
func (w rawClient) result(id string) (state string, end map[string]any) {
	w.t.Helper()
	reply, _ := w.do("HMGET", wireTask+id, "state", "result").([]any)
	state, _ = reply[0].(string)
	if text, ok := reply[1].(string); ok {
		if err := json.Unmarshal([]byte(text), &end); err != nil {
			w.t.Fatal(err)
		}
	}
	return state, end
}

func TestWireMessageHasAReply(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	w := rawClient{t, client(t, url)}
	const payload = `{"v":1,"text":"hello","mode":"queue","meta":{"k":"v"},"attachments":[{"name":"a","mime":"text/plain","path":"/a","size":1}],"expires_in":"10m"}`
	if w.enqueue("m1", payload) != 1 {
		t.Fatal("not stored")
	}
	if w.enqueue("m1", payload) != 0 {
		t.Error("a duplicate was stored")
	}
	info, err := asynq.NewInspectorFromRedisClient(rdb).GetTaskInfo(wireQueue, wirePrefix+"m1")
	if err != nil || info.State != asynq.TaskStatePending || info.Type != "turnstile:message" || string(info.Payload) != payload ||
		info.MaxRetry != 2 || info.Timeout != 30*time.Minute {
		t.Errorf("asynq reads %+v, %v", info, err)
	}
	if state, _ := w.result("m1"); state != "pending" {
		t.Errorf("state %q", state)
	}
	turns(t, url, hour, echo)
	w.notify()
	end := w.answer("m1")
	if end["status"] != "done" || end["reply"] != "echo: hello" {
		t.Errorf("end %v", end)
	}
	state, stored := w.result("m1")
	if state != "completed" || stored["type"] != "turn_ended" || stored["reply"] != "echo: hello" || stored["turn"] != end["turn"] {
		t.Errorf("%s, %v", state, stored)
	}
	// The Go sender and this one recognize each other's messages.
	if r := enqueue(t, bg(t), url, "", "-s", "s1", "--id", "m1", "--wait", "hello").want(t, exitOK); r.out != "echo: hello\n" {
		t.Errorf("%+v", r)
	}
	w.enqueue("m2", `{"v":1,"text":"fail badly"}`)
	w.notify()
	w.answer("m2")
	if state, end := w.result("m2"); state != "archived" || end["status"] != "failed" || end["error"] != "badly" {
		t.Errorf("%s, %v", state, end)
	}
	if state, _ := w.result("m3"); state != "" {
		t.Errorf("state of no message: %q", state)
	}
}

// The sweep finds the message of a sender that does not wake; once the session is known, without
// asynq's list, too.
func TestWirePlainMessage(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	w := rawClient{t, client(t, url)}
	w.enqueue("m1", `{"v":1,"text":"hello"}`)
	turns(t, url, hour, echo)
	sweeper, err := actors.NewConsumer(rdb, protocol.Config{Worker: "sweeper"})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := sweeper.Sweep(context.Background(), 50*time.Millisecond); n != 1 || err != nil {
		t.Errorf("sweep: %d, %v", n, err)
	}
	if end := w.answer("m1"); end["status"] != "done" {
		t.Errorf("end %v", end)
	}
}

func TestWireDelayedMessage(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	w := rawClient{t, client(t, url)}
	turns(t, url, hour, echo)
	now := w.now()
	at := now/1000 + 1
	w.do("SADD", "asynq:queues", wireQueue)
	stored := w.do("EVAL", wireScript(t, "schedule"), 2, wireTask+"m1", "asynq:{session:s1}:scheduled",
		wireMessage(wirePrefix+"m1", `{"v":1,"text":"later"}`), wirePrefix+"m1", at)
	w.do("SADD", "asynq:queues", wireQueue)
	w.do("ZADD", "turnstile:sessions", now, "s1")
	w.do("ZADD", "turnstile:due", "LT", at*1000, "s1")
	if stored != int64(1) {
		t.Errorf("stored: %v", stored)
	}
	if end := w.answer("m1"); end["reply"] != "echo: later" {
		t.Errorf("end %v", end)
	}
	if done := w.now(); done < at*1000 {
		t.Errorf("it ran %d ms early", at*1000-done)
	}
}

// A task that is not a message is archived with the reason, and the next one runs.
func TestWireBadPayload(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	w := rawClient{t, client(t, url)}
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		if err := h.Turn().Err; err != nil {
			return &protocol.End{Status: session.StatusFailed, Error: err.Error()}
		}
		return echo(h)
	})
	w.enqueue("m1", `{"text":"no version"}`)
	w.enqueue("m2", `{"v":1,"text":"more","colour":"ignored"}`)
	w.notify()
	if end := w.answer("m2"); end["reply"] != "echo: more" {
		t.Errorf("end %v", end)
	}
	if state, end := w.result("m1"); state != "archived" || !strings.Contains(end["error"].(string), "version") {
		t.Errorf("%s, %v", state, end)
	}
}

// Each command uses one slot, or one key.
func TestWireOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	w := rawClient{t, cluster.Client()}
	turns(t, cluster.URL(), hour, echo)
	w.enqueue("m1", `{"v":1,"text":"hello"}`)
	w.notify()
	if end := w.answer("m1"); end["reply"] != "echo: hello" {
		t.Errorf("end %v", end)
	}
}

// The example has the page's script and names.
func TestWireExampleAgreesWithThePage(t *testing.T) {
	t.Parallel()
	_, example, ok := strings.Cut(wireDoc(t), "```python\n")
	if !ok || !strings.Contains(example, wireScript(t, "enqueue")) {
		t.Error("the example's script is another")
	}
	for _, name := range []string{"turnstile:sessions", "turnstile:owned", "turnstile:ready", "asynq:queues", "15000"} {
		if !strings.Contains(example, name) {
			t.Errorf("the example lacks %s", name)
		}
	}
}

package protocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// taskFields are the fields of a task's hash that a script reads, other than msg.
var taskFields = []string{"", "seen", "redelivered", "deaths", "quiet", "unique_key", "seq", "first", "steer", "pending_since", "state", "result", "arrived"}

// Another program's task runs, or ends as a dead letter that says why, and the next message runs:
// for any ID, bytes and content of one field. If asynq could read the task before, it can read it
// afterwards.
func FuzzTasks(f *testing.F) {
	good := protocol.EncodeTask(actors.Key, "a", []byte(`{"v":1,"text":"hello"}`), "")
	f.Add("m1", good, uint8(0), "")
	f.Add(`quo"te\`, []byte("\xff\xff\xff"), uint8(1), "-1")
	f.Add("\n\xff", append(slices.Clone(good), "\x3a\x03old\x58\x01"...), uint8(2), "1e400")
	f.Add("m1", append(slices.Clone(good), "\x1a\xff\xff\xff\xff\x0f"...), uint8(4), "x")
	f.Add("m1", good, uint8(1), "nan")
	f.Add("m1", good, uint8(4), "1 99999999999999999999")
	f.Add("m1", good, uint8(3), "inf")
	f.Add("m1", good, uint8(5), "other")
	f.Add("m1", protocol.EncodeTask(actors.Key, "a", []byte(`{"v":1,"text":"x","expires_in":"-1s"}`), ""), uint8(6), "0x10")
	f.Add(strings.Repeat("i", 300), []byte(nil), uint8(11), "\xff")
	task, err := protoregistry.GlobalTypes.FindMessageByName("asynq.TaskMessage")
	expect.OK(f, err)
	f.Fuzz(func(t *testing.T, id string, msg []byte, field uint8, value string) {
		if id == "" {
			return // asynq takes no such ID
		}
		b := actors.NewBench(t)
		name := taskFields[int(field)%len(taskFields)]
		if name == "quiet" && len(value) > 12 {
			value = "1 " + value // it may wait for years, as long as it says so
		}
		fields := []any{"msg", msg, "state", "pending", "pending_since", "1"}
		if name != "" {
			fields = append(fields, name, value)
		}
		expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(id), fields...).Err())
		expect.OK(t, b.Redis.LPush(b.Ctx, b.Keys.Pending(), id).Err())
		expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key)).Err())
		b.Say("behind")
		var ran []string
		why := ""
		for range 5 {
			claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
			if err != nil {
				t.Fatalf("claim: %v", err)
			}
			if len(claims) == 0 {
				break
			}
			for more := true; more; {
				turn, end := claims[0].Turn(), b.Done(claims[0])
				if turn.Err != nil {
					why = turn.Err.Error()
					expect.Line(t, "why the message is refused", why, expect.ErrorMost)
					end = protocol.End{Status: session.StatusFailed, Error: why}
				}
				ran = append(ran, turn.Message.ID)
				for _, m := range turn.Collected {
					ran = append(ran, m.Message.ID)
				}
				if more, err = claims[0].Finish(b.Ctx, end); err != nil {
					t.Fatalf("finish: %v", err)
				}
			}
		}
		if name == "quiet" && b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val() == 2 && len(ran) == 0 {
			return
		}
		if !slices.Contains(ran, "behind") || len(ran) != 2 {
			t.Fatalf("%q ran", ran)
		}
		stored := b.Redis.HGetAll(b.Ctx, b.Keys.Task(id)).Val()
		want := "completed"
		if why != "" {
			want = "archived"
		}
		if stored["state"] != want {
			t.Fatalf("it is %q, want %q", stored["state"], want)
		}
		if o := stream.StoredOutcome(actors.Key, id, want, stored["result"]); o.Error != why {
			t.Errorf("its outcome is %+v, want the error %q", o, why)
		}
		before, after := task.New().Interface(), task.New().Interface()
		if proto.Unmarshal(msg, before) != nil {
			return
		}
		if err := proto.Unmarshal([]byte(stored["msg"]), after); err != nil {
			t.Fatalf("asynq cannot read it any more: %v: %q", err, stored["msg"])
		}
		m := after.ProtoReflect().Get(task.Descriptor().Fields().ByName("error_msg")).String()
		if why != "" && m != why {
			t.Errorf("asynqmon shows %q, want %q", m, why)
		}
	})
}

// asynq reads a task to which a script wrote an error: all that it had, and only the new error.
func FuzzArchivedTask(f *testing.F) {
	f.Add("\x3a\x03old\x58\x01", uint16(0))
	f.Add("\xa2\x06\x02ab\x7a\x06\x0a\x01k\x12\x01v", uint16(3))
	f.Add("\x0b\x3a\x01x\x0c", uint16(0)) // a group
	f.Add("", uint16(1200))
	task, err := protoregistry.GlobalTypes.FindMessageByName("asynq.TaskMessage")
	expect.OK(f, err)
	good := protocol.EncodeTask(actors.Key, "a", []byte(`{"v":2}`), "nonce")
	f.Fuzz(func(t *testing.T, more string, unknown uint16) {
		msg := append(slices.Clone(good), strings.Repeat("\xa0\x06\x01", int(unknown%1500))...)
		msg = append(msg, more...)
		before := task.New()
		if proto.Unmarshal(msg, before.Interface()) != nil {
			return
		}
		b := actors.NewBench(t)
		b.Say("a")
		expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "msg", msg).Err())
		h := b.Claim()
		if h.Turn().Err == nil {
			t.Skip("it became a message")
		}
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
		expect.OK(t, err)
		info, err := asynq.NewInspectorFromRedisClient(b.Redis).GetTaskInfo(actors.Queue, b.Task("a"))
		expect.OK(t, err)
		payload := before.Get(task.Descriptor().Fields().ByName("payload")).Bytes()
		if info.LastErr != h.Turn().Err.Error() || string(info.Payload) != string(payload) || info.LastFailedAt.IsZero() {
			t.Errorf("%q is %+v", msg, info)
		}
	})
}

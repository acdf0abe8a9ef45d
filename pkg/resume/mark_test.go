package resume_test

import (
	"testing"
	"time"

	"turnstile/pkg/resume"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestB15_Mark(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	before, err := rdb.Time(t.Context()).Result()
	expect.OK(t, err)
	answer(t, true)(resume.Mark(t.Context(), rdb, chat, ""))
	got := read(t, rdb)
	if got.MarkedAt.Before(before.Truncate(time.Millisecond)) || got.Age < 0 || got.Age > time.Minute {
		t.Errorf("marked at %v, %v ago; it was after %v", got.MarkedAt, got.Age, before)
	}
	got.MarkedAt, got.Age = time.Time{}, 0
	expect.Equal(t, "record", got, resume.Record{Pending: true, Reason: "restart_timeout"})
}

func TestB16_CustomReason(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	for _, reason := range []string{"shutdown_timeout", "crash", "it rained"} { // the last one counts
		answer(t, true)(resume.Mark(t.Context(), rdb, chat, reason))
		expect.Equal(t, "reason", read(t, rdb).Reason, reason)
	}
}

func TestB17_UnknownSession(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	answer(t, false)(resume.Mark(t.Context(), rdb, chat, ""))
	answer(t, false)(resume.Suspend(t.Context(), rdb, chat))
	size, err := rdb.DBSize(t.Context()).Result()
	expect.OK(t, err)
	expect.Equal(t, "keys", size, 0)
}

func TestB18_SuspendedWins(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	record(t, rdb, "suspended", "1", "interruptions", "3")
	unchanged(t, rdb, func() { answer(t, false)(resume.Mark(t.Context(), rdb, chat, "")) })
	record(t, rdb, "suspended", "1", "pending", "1", "reason", "crash", "marked_at", "1795227266293")
	unchanged(t, rdb, func() { answer(t, false)(resume.Mark(t.Context(), rdb, chat, "")) })
}

func TestB19_Durable(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	introduce(t, server.Client(), chat)
	answer(t, true)(resume.Mark(t.Context(), server.Client(), chat, resume.ReasonShutdown))
	want := read(t, server.Client()).MarkedAt
	for name, end := range map[string]func(){"SIGTERM": server.Stop, "SIGKILL": server.Kill} {
		end()
		server.Start()
		got := read(t, server.Client())
		if !got.Pending || got.Reason != resume.ReasonShutdown || !got.MarkedAt.Equal(want) {
			t.Errorf("after %s: %+v", name, got)
		}
	}
}

func TestB20_Clear(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	answer(t, true)(resume.Mark(t.Context(), rdb, chat, ""))
	answer(t, true)(resume.Clear(t.Context(), rdb, chat))
	expect.Equal(t, "record", read(t, rdb), resume.Record{})

	record(t, rdb, "pending", "1", "reason", "crash", "marked_at", "1795227266293", "interruptions", "2", "fence", "7", "suspended", "1")
	answer(t, true)(resume.Clear(t.Context(), rdb, chat))
	expect.Equal(t, "what is not the mark's", read(t, rdb), resume.Record{Interruptions: 2, Fence: 7, Suspended: true})
}

func TestB21_ClearWithoutAMark(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	answer(t, false)(resume.Clear(t.Context(), rdb, chat))
	answer(t, false)(resume.Clear(t.Context(), rdb, "unknown"))
	record(t, rdb, "interruptions", "2", "suspended", "1")
	unchanged(t, rdb, func() { answer(t, false)(resume.Clear(t.Context(), rdb, chat)) })
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	answer(t, true)(resume.Mark(t.Context(), rdb, chat, ""))
	marked := read(t, rdb).MarkedAt
	for range 2 {
		answer(t, true)(resume.Suspend(t.Context(), rdb, chat))
		got := read(t, rdb)
		if !got.Suspended || !got.Pending || !got.MarkedAt.Equal(marked) {
			t.Errorf("suspended with a mark: %+v", got)
		}
	}
}

// go-redis sends a call again when its reply was lost.
func TestSentTwice(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	var faults redistest.Faults
	rdb.AddHook(&faults)
	faults.RunTwice(redistest.Named("evalsha", "eval"), -1)
	answer(t, true)(resume.Mark(t.Context(), rdb, chat, resume.ReasonCrash))
	if got := read(t, rdb); !got.Pending || got.Reason != resume.ReasonCrash || got.Interruptions != 0 {
		t.Errorf("marked twice: %+v", got)
	}
	answer(t, false)(resume.Clear(t.Context(), rdb, chat)) // the second time there is nothing to clear
	expect.Equal(t, "cleared twice", read(t, rdb), resume.Record{})
	answer(t, true)(resume.Suspend(t.Context(), rdb, chat))
	expect.Equal(t, "suspended twice", read(t, rdb), resume.Record{Suspended: true})
}

func TestWrongTypes(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	expect.OK(t, rdb.Set(t.Context(), keys.Resume(), "x", 0).Err())
	if ok, err := resume.Mark(t.Context(), rdb, chat, ""); ok || err == nil {
		t.Errorf("mark: %v, %v", ok, err)
	}
	if ok, err := resume.Clear(t.Context(), rdb, chat); ok || err == nil {
		t.Errorf("clear: %v, %v", ok, err)
	}
	if ok, err := resume.Suspend(t.Context(), rdb, chat); ok || err == nil {
		t.Errorf("suspend: %v, %v", ok, err)
	}
	expect.Equal(t, "the key", rdb.Get(t.Context(), keys.Resume()).Val(), "x")
}

func TestFullRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	introduce(t, rdb, chat)
	record(t, rdb, "interruptions", "1")
	expect.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	unchanged(t, rdb, func() {
		if ok, err := resume.Mark(t.Context(), rdb, chat, ""); ok || err == nil {
			t.Errorf("mark: %v, %v", ok, err)
		}
		if ok, err := resume.Suspend(t.Context(), rdb, chat); ok || err == nil {
			t.Errorf("suspend: %v, %v", ok, err)
		}
	})
	expect.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	answer(t, true)(resume.Mark(t.Context(), rdb, chat, ""))
	expect.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	expect.Equal(t, "pending", read(t, rdb).Pending, true)
	answer(t, true)(resume.Clear(t.Context(), rdb, chat))
}

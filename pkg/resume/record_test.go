package resume_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/resume"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestB11_AnAbsentRecordReadsAsNoMark(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "never heard of", read(t, redistest.New(t)), resume.Record{})
	expect.Equal(t, "never interrupted", read(t, known(t)), resume.Record{})
}

func TestB12_RoundTrip(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	now, err := rdb.Time(t.Context()).Result()
	expect.OK(t, err)
	marked := now.Truncate(time.Millisecond).Add(-time.Minute)
	record(t, rdb, "pending", "1", "reason", "the moon", "marked_at", strconv.FormatInt(marked.UnixMilli(), 10),
		"interruptions", "2", "fence", "1795227266293", "suspended", "1")
	got := read(t, rdb)
	if got.Age < time.Minute || got.Age > 2*time.Minute {
		t.Errorf("age %v of a mark that is a minute old", got.Age)
	}
	if !got.MarkedAt.Equal(marked) {
		t.Errorf("marked at %v, want %v", got.MarkedAt, marked)
	}
	got.Age, got.MarkedAt = 0, time.Time{}
	expect.Equal(t, "record", got, resume.Record{Pending: true, Reason: "the moon", Interruptions: 2, Fence: 1795227266293, Suspended: true})
}

func TestB13_MissingFieldsReadAsDefaults(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	record(t, rdb, "pending", "1")
	expect.Equal(t, "only the flag", read(t, rdb), resume.Record{Pending: true})
	record(t, rdb, "reason", "crash")
	expect.Equal(t, "only the reason", read(t, rdb), resume.Record{Reason: "crash"})
	record(t, rdb, "later", "1", "suspended", "1")
	expect.Equal(t, "a newer writer's field", read(t, rdb), resume.Record{Suspended: true})
}

func TestB14_MalformedTime(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	for _, at := range []string{"", "yesterday", "-1", "1.7e+12", "2026-01-01T00:00:00Z", "99999999999999999999"} {
		record(t, rdb, "pending", "1", "reason", "crash", "marked_at", at, "interruptions", "many", "fence", "-3")
		expect.Equal(t, at, read(t, rdb), resume.Record{Pending: true, Reason: resume.ReasonCrash})
	}
}

// A mark is in the future if Redis' clock was set back.
func TestAgeIsNeverNegative(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	record(t, rdb, "pending", "1", "marked_at", "9000000000000")
	expect.Equal(t, "age", read(t, rdb).Age, 0)
}

func TestFresh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		record resume.Record
		limit  time.Duration
		want   bool
	}{
		{"no mark", resume.Record{}, 0, false},
		{"young", resume.Record{Pending: true, Age: time.Minute}, time.Hour, true},
		{"just not too old", resume.Record{Pending: true, Age: time.Hour}, time.Hour, true},
		{"old", resume.Record{Pending: true, Age: time.Hour + 1}, time.Hour, false},
		{"old, any age", resume.Record{Pending: true, Age: 1000 * time.Hour}, 0, true},
		{"unknown age", resume.Record{Pending: true}, time.Millisecond, true},
		{"suspended", resume.Record{Pending: true, Suspended: true}, 0, false},
	} {
		expect.Equal(t, c.name, c.record.Fresh(c.limit), c.want)
	}
}

func TestReadOfAWrongType(t *testing.T) {
	t.Parallel()
	rdb := known(t)
	expect.OK(t, rdb.Set(t.Context(), keys.Resume(), "x", 0).Err())
	if _, err := resume.Read(t.Context(), rdb, chat); err == nil || !strings.Contains(err.Error(), chat) {
		t.Errorf("%v, want an error that names the session", err)
	}
}

// A restarted server does not know the scripts any more.
func TestReadAfterScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	rdb := server.Client()
	for range 2 {
		expect.OK(t, rdb.ScriptFlush(t.Context()).Err())
		expect.Equal(t, "record", read(t, rdb), resume.Record{})
	}
}

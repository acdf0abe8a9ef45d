package resume_test

import (
	"testing"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/testredis"
	"turnstile/pkg/resume"
)

func TestRead(t *testing.T) {
	t.Parallel()
	rdb := testredis.New(t)
	for name, c := range map[string]struct {
		fields map[string]any
		want   resume.Record
	}{
		"B11-defaults":       {nil, resume.Record{}},
		"B12-round-trip":     {map[string]any{"pending": "1", "reason": "crash", "marked_at": "1795227266293", "interruptions": "2"}, resume.Record{Pending: true, Reason: resume.ReasonCrash, MarkedAt: time.UnixMilli(1795227266293), Interruptions: 2}},
		"B13-legacy":         {map[string]any{"pending": "1"}, resume.Record{Pending: true}},
		"B14-malformed-time": {map[string]any{"pending": "1", "reason": "crash", "marked_at": "yesterday", "interruptions": "many"}, resume.Record{Pending: true, Reason: resume.ReasonCrash}},
		"suspended":          {map[string]any{"suspended": "1"}, resume.Record{Suspended: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fields != nil {
				if err := rdb.HSet(t.Context(), rediskey.For(name).Resume(), c.fields).Err(); err != nil {
					t.Fatal(err)
				}
			}
			got, err := resume.Read(t.Context(), rdb, name)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	if err := rdb.Set(t.Context(), rediskey.For("broken").Resume(), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := resume.Read(t.Context(), rdb, "broken"); err == nil {
		t.Error("a record of a wrong type reads as none")
	}
}

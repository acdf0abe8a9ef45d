package world

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"turnstile/chaos/internal/agents"
	"turnstile/test/history"
)

// Sentinel replaces a killed primary and makes it a replica when it is back. Clients follow, and the history says from
// when on writes may be lost.
func TestSentinelReplacesAPrimary(t *testing.T) {
	t.Parallel()
	w := withRedis(t, Sentinel)
	rdb := w.Client(Admin)
	defer rdb.Close()
	if err := rdb.Set(t.Context(), "early", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	from, began := w.Primary(), time.Now()
	from.Down(syscall.SIGKILL, 0)
	if err := w.Replaced(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	if err := Await(t.Context(), 20*time.Second, func() error { return rdb.Set(t.Context(), "late", "1", 0).Err() }); err != nil {
		t.Fatal(err)
	}
	if err := from.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Mended(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := rdb.Exists(t.Context(), "early", "late").Result(); n != 2 || err != nil || w.Primary() == from {
		t.Errorf("%d of 2 keys, %v; the primary is %s", n, err, w.Primary().Name)
	}
	records, err := history.Load(filepath.Join(w.Dir, agents.HistoryDir))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 1 || records[0].Name != history.PrimaryReplaced || records[0].Since > began.UnixNano() {
		t.Errorf("recorded: %+v", records)
	}
}

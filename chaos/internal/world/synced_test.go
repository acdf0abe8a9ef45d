package world

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"turnstile/chaos/internal/agents"
	"turnstile/test/clock"
	"turnstile/test/history"
)

// withRedis is a world of redis-servers alone.
func withRedis(t *testing.T, topology Topology) *World {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{agents.HistoryDir, "logs", "clocks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log, err := history.Open(filepath.Join(dir, agents.HistoryDir), "harness")
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Topology: topology, TTL: TTL, Dir: dir, log: log, Programs: Programs{Root: "../../.."}}
	t.Cleanup(w.Kill)
	if w.Programs.Shim, err = clock.Build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := w.startRedis(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// A power loss takes unsynced data, and nothing else.
func TestLosePower(t *testing.T) {
	t.Parallel()
	w := withRedis(t, Everysec)
	rdb := w.Client(Admin)
	defer rdb.Close()
	set := func(key string) {
		t.Helper()
		if err := rdb.Set(t.Context(), key, "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("early")
	err := Await(t.Context(), 20*time.Second, func() error {
		if size, name, err := w.synced.read(); err != nil || name == "" || size == 0 {
			return errors.Join(err, errors.New("nothing was synced"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.ConfigSet(t.Context(), "appendfsync", "no").Err(); err != nil {
		t.Fatal(err)
	}
	set("late")
	lost, err := w.LosePower(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again := w.Client(Admin)
	defer again.Close()
	early, late := again.Exists(t.Context(), "early").Val(), again.Exists(t.Context(), "late").Val()
	if early != 1 || late != 0 || lost == 0 {
		t.Errorf("early %d, late %d, %d bytes lost: want 1, 0, and some bytes", early, late, lost)
	}
}

package exec

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"
)

// Not parallel: it counts resources of the whole process.
func TestNothingLeaks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts in /proc/self/fd")
	}
	count := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	run := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for _, config := range []Config{
			{Command: []string{"cat"}},
			{Command: shell("exit 3")},
			{Command: shell("sleep 1000"), Grace: -1},
			{Command: []string{"no-such-program-anywhere"}},
			{Command: []string{"/"}},
			{Command: shell("echo bad; sleep 1000"), Format: JSONL},
		} {
			_, _ = runText(ctx, newAgent(t, config), turn(t, "hi"))
			_, _ = runText(t.Context(), newAgent(t, Config{Command: []string{"cat"}}), turn(t, "hi"))
		}
	}
	run()
	before := count()
	for range 3 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d files are open, before it were %d", after, before)
	}
}

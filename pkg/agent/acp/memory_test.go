package acp

import (
	"runtime"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// allowed is how many bytes of heap and stacks an idle agent may cost its worker.
const allowed = 100 << 10

// used is how many of both the process has now. Other tests would count too, so this one is not
// parallel, and runs before they begin or after their end.
func used() int64 {
	runtime.GC()
	runtime.GC() // frees memory that the first one's finalizers and the pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestMemoryOfIdleAgents(t *testing.T) { //nolint:paralleltest // it measures the whole process
	const agents = 20
	a := newAgent(t, Config{Command: actorCommand(t), Permissions: Allow})
	run := func(w *warm) {
		// A long line and many events: buffers that have grown must shrink again.
		_, err := runWarm(t, w, turnWith(t, "long 1000000", "many 300", "stderr "+strings.Repeat("e", 9000), "text a", "call fs/x {}"))
		expect.OK(t, err)
	}
	run(warmed(t, a, turnWith(t))) // allocations that every process makes once
	before := used()
	var all []*warm
	for range agents {
		turn := turnWith(t)
		turn.History = someHistory
		w := warmed(t, a, turn)
		run(w)
		all = append(all, w)
	}
	each := (used() - before) / agents
	goroutines := runtime.NumGoroutine()
	t.Logf("an idle agent costs %d KiB of heap and stacks; %d goroutines for %d agents", each>>10, goroutines, agents+1)
	if each > allowed {
		t.Errorf("an idle agent costs %d KiB, at most %d are allowed", each>>10, allowed>>10)
	}
	runtime.KeepAlive(all)
}

// Command agents measures the cost of the adapters, on a redis-server that it starts: the worker's
// processor time for each piece of a reply, the time from an agent's first piece to the output of
// `enqueue --follow`, and the worker's memory for each warm agent.
//
// It builds the worker and enqueue itself. The agents are this program, started again as a process
// that speaks the protocol. The model is a server in this process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent/exec"
)

var (
	turns   = flag.Int("turns", 50, "talkative turns at once")
	lasts   = flag.Duration("for", 7*time.Second, "how long they talk")
	every   = flag.Duration("every", 5*time.Millisecond, "how often each of them says something")
	samples = flag.Int("samples", 30, "samples of the first piece, for each adapter")
	warm    = flag.Int("warm", 200, "warm sessions")
)

const title = "agents"

func main() {
	exec.Init()
	if speak(os.Args) || lab.RunJob(title, job.run) {
		return
	}
	lab.Main(title, run)
}

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	dir, err := os.MkdirTemp("", "agents-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if out, err := osexec.CommandContext(ctx, "go", "build", "-C", "..", "-o", dir+"/", "./cmd/...").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := bench{srv: srv, report: report, worker: filepath.Join(dir, "worker"), enqueue: filepath.Join(dir, "enqueue"), self: self, home: dir}
	for _, a := range adapters {
		if err := b.measure(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return keptWarm(ctx, srv, report, lab.Quick(*warm, 20))
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/session"
)

type adapter struct {
	name, speaks string
	settings     []string
}

var adapters = []adapter{
	{"exec text", "text", []string{"TURNSTILE_AGENT=exec"}},
	{"exec jsonl", "jsonl", []string{"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl"}},
	{"claude", "claude", []string{"TURNSTILE_AGENT=claude"}},
	{"acp", "acp", []string{"TURNSTILE_AGENT=acp"}},
	{"model", "", []string{"TURNSTILE_AGENT=model", "TURNSTILE_MODEL=m"}},
}

type bench struct {
	srv                         *lab.Server
	report                      *lab.Report
	worker, enqueue, self, home string
}

// measure runs one worker with an adapter.
func (b bench) measure(ctx context.Context, a adapter) error {
	if err := b.srv.Clear(ctx); err != nil {
		return err
	}
	settings := append(b.environ(fmt.Sprintf("TURNSTILE_CONCURRENCY=%d", *turns)), a.settings...)
	if a.speaks == "" {
		model := startModel()
		defer model.Close()
		settings = append(settings, "OPENAI_BASE_URL="+model.URL+"/v1")
	} else {
		settings = append(settings, fmt.Sprintf("TURNSTILE_AGENT_COMMAND='%s' speak=%s", b.self, a.speaks))
	}
	worker := osexec.CommandContext(ctx, b.worker)
	worker.Env, worker.Stderr = settings, os.Stderr
	if err := worker.Start(); err != nil {
		return err
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	if err := b.pieces(ctx, a, worker.Process.Pid); err != nil {
		return err
	}
	return b.first(ctx, a)
}

func (b bench) environ(settings ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "REDIS_URL=redis://" + b.srv.Addr() + "/0",
		"TURNSTILE_LOG_LEVEL=error", "TURNSTILE_DRAIN_TIMEOUT=0",
	}, settings...)
}

// pieces measures the worker's processor time for talkative turns, less that of turns that take as
// long and emit one word.
func (b bench) pieces(ctx context.Context, a adapter, pid int) error {
	n := int(lab.Quick(*lasts, 2*time.Second) / *every)
	if _, err := b.turns(ctx, pid, "warm", "talk 10 1ms"); err != nil {
		return err
	}
	silent, err := b.turns(ctx, pid, "silent", "silent "+lab.Quick(*lasts, 2*time.Second).String())
	if err != nil {
		return err
	}
	talking, err := b.turns(ctx, pid, "talking", fmt.Sprintf("talk %d %s", n, *every))
	if err != nil {
		return err
	}
	each := float64((talking - silent).Microseconds()) / float64(n**turns)
	b.report.Reach(fmt.Sprintf("%s: the worker's processor time for each of %d pieces, %d turns at once", a.name, n**turns, *turns),
		each <= 20, "<= 20 us", "%.1f us", each)
	b.report.Add("  of that many turns without them", "%s", silent)
	return nil
}

// turns runs as many concurrent turns as the worker can, and returns the processor time that it
// used for them.
func (b bench) turns(ctx context.Context, pid int, prefix, text string) (time.Duration, error) {
	rdb := b.srv.Client()
	defer rdb.Close()
	client := turnstile.NewClient(rdb)
	before, err := processorTime(pid)
	if err != nil {
		return 0, err
	}
	err = lab.Parallel(*turns, func(i int) error {
		key := fmt.Sprintf("%s:%d", prefix, i)
		receipt, err := client.Session(key).Send(ctx, turnstile.Message{Text: text})
		if err != nil {
			return err
		}
		end, err := client.Session(key).Wait(ctx, receipt.ID)
		if err == nil && end.Status != session.StatusDone {
			err = fmt.Errorf("%s: %s", end.Status, end.Error)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	after, err := processorTime(pid)
	return after - before, err
}

// processorTime is the processor time of a process, in user mode and in the kernel, without its
// children.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields, ticks := strings.Fields(rest), 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100 everywhere
}

// first measures from an agent's first piece to the output of enqueue.
func (b bench) first(ctx context.Context, a adapter) error {
	var took []time.Duration
	for i := range lab.Quick(*samples, 10) {
		cmd := osexec.CommandContext(ctx, b.enqueue, "-s", fmt.Sprintf("first:%d", i), "--follow", "first 200ms")
		cmd.Env = b.environ()
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		text := make([]byte, 64)
		n, err := out.Read(text)
		at := time.Now()
		if err != nil {
			return fmt.Errorf("read enqueue's output: %w", err)
		}
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		number, _, _ := strings.Cut(string(text[:n])+string(rest), ".")
		began, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return err
		}
		took = append(took, at.Sub(time.Unix(0, began)))
	}
	lab.Progress("%s: first pieces", a.name)
	b.report.Reach(a.name+": an agent's first piece to what `enqueue --follow` prints", lab.Median(took) <= 10*time.Millisecond,
		"p50 <= 10ms", "%s", lab.Spread(took))
	return nil
}

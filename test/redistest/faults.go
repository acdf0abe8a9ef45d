package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrLostReply is what a caller sees whose command was carried out and whose
// answer LoseReply threw away. It is a network error.
var ErrLostReply error = &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}

// Match chooses commands.
type Match func(redis.Cmder) bool

// Any chooses every command.
func Any(redis.Cmder) bool { return true }

// Named chooses commands by name: Named("set", "evalsha"). A script that the
// server does not know yet is sent again as EVAL: to strike the first call of
// one, too, name both.
func Named(names ...string) Match {
	return func(cmd redis.Cmder) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, cmd.Name()) })
	}
}

// Script chooses the calls of one script, by EVAL or EVALSHA, read-only or not.
// hash is redis.Script's Hash.
func Script(hash string) Match {
	return func(cmd redis.Cmder) bool {
		args := cmd.Args()
		if len(args) < 2 || !strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
			return false
		}
		text, ok := args[1].(string)
		return ok && (text == hash || redis.NewScript(text).Hash() == hash)
	}
}

// Faults makes a real client misbehave: client.AddHook(faults). The zero value
// does nothing but count. It sits above go-redis's own retries, so an error
// that it makes up is not retried there; RunTwice plays that retry.
//
// A pipeline counts as matched when one of its commands is, and suffers as a
// whole, as it would on the wire. A transaction's MULTI and EXEC count as
// commands. HELLO, AUTH, SELECT, CLIENT and READONLY are left alone and not
// counted: go-redis opens its connections with them, whenever it likes.
type Faults struct {
	mu     sync.Mutex
	rules  []*rule
	counts map[string]int
	total  int
}

var _ redis.Hook = (*Faults)(nil)

type kind int

const (
	loseReply kind = iota
	runTwice
	failBefore
	delayed
	gateBefore
	gateAfter
)

type rule struct {
	kind  kind
	match Match
	left  int // how often it still strikes; below 0: for ever
	err   error
	delay time.Duration
	gate  *Gate
}

// LoseReply carries out the first n matching commands and shows their callers
// ErrLostReply instead of the answer. A negative n means all. A NOSCRIPT answer
// does not count and is let through, as nothing was carried out.
func (f *Faults) LoseReply(match Match, n int) {
	f.add(&rule{kind: loseReply, match: match, left: n})
}

// RunTwice carries out the first n matching commands twice and shows the second
// answer: a lost reply, followed by go-redis's own resend. A negative n means
// all. A NOSCRIPT answer does not count.
func (f *Faults) RunTwice(match Match, n int) {
	f.add(&rule{kind: runTwice, match: match, left: n})
}

// FailBefore answers the first n matching commands with err and sends nothing.
// A negative n means all.
func (f *Faults) FailBefore(match Match, n int, err error) {
	f.add(&rule{kind: failBefore, match: match, left: n, err: err})
}

// Delay holds every matching command back for d before it is sent.
func (f *Faults) Delay(match Match, d time.Duration) {
	f.add(&rule{kind: delayed, match: match, left: -1, delay: d})
}

// Gate holds every matching command back, unsent, until the gate is released.
func (f *Faults) Gate(match Match) *Gate {
	g := newGate()
	f.add(&rule{kind: gateBefore, match: match, left: -1, gate: g})
	return g
}

// GateReply sends every matching command and holds its answer back until the
// gate is released.
func (f *Faults) GateReply(match Match) *Gate {
	g := newGate()
	f.add(&rule{kind: gateAfter, match: match, left: -1, gate: g})
	return g
}

// Clear takes all faults away; gates stay as they are for those who wait there.
// The counts stay.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// CountCommands answers how many commands the client was asked for since the
// start or ResetCounts; a script is one, a pipeline is as many as it holds.
func (f *Faults) CountCommands() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// CountNamed answers how many of them had that name, in lower case.
func (f *Faults) CountNamed(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

// ResetCounts starts the counts again at 0.
func (f *Faults) ResetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts, f.total = nil, 0
}

func (f *Faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// DialHook leaves dialling alone.
func (f *Faults) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook strikes single commands.
func (f *Faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.strike(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook strikes pipelines and transactions.
func (f *Faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.strike(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

func (f *Faults) strike(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return !setUp(cmd) }) {
		return send()
	}
	rules := f.matching(cmds)
	for _, r := range rules {
		var err error
		switch r.kind {
		case delayed:
			err = wait(ctx, r.delay)
		case gateBefore:
			err = r.gate.pass(ctx, cmds)
		case failBefore:
			if f.spend(r) {
				err = r.err
			}
		}
		if err != nil {
			return fail(cmds, err)
		}
	}
	err := send()
	unknown := noScript(err, cmds)
	for _, r := range rules {
		switch r.kind {
		case runTwice:
			if !unknown && f.spend(r) {
				err = send()
			}
		case loseReply:
			if !unknown && f.spend(r) {
				err = fail(cmds, fmt.Errorf("testredis: %w", ErrLostReply))
			}
		case gateAfter:
			if unknown { // nothing was carried out: the same comes again with its text
				continue
			}
			if held := r.gate.pass(ctx, cmds); held != nil {
				err = fail(cmds, held)
			}
		}
	}
	return err
}

func (f *Faults) matching(cmds []redis.Cmder) []*rule {
	f.mu.Lock()
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	for _, cmd := range cmds {
		f.counts[strings.ToLower(cmd.Name())]++
		f.total++
	}
	rules := slices.Clone(f.rules)
	f.mu.Unlock()
	// match is the test's own code: not under the lock.
	return slices.DeleteFunc(rules, func(r *rule) bool { return !slices.ContainsFunc(cmds, r.match) })
}

// setUp tells the commands with which go-redis opens a connection: they pass
// through the hooks too.
func setUp(cmd redis.Cmder) bool {
	switch strings.ToLower(cmd.Name()) {
	case "hello", "auth", "select", "client", "readonly":
		return true
	}
	return false
}

func (f *Faults) spend(r *rule) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.left > 0 {
		r.left--
		return true
	}
	return r.left < 0
}

// noScript: go-redis notes a single command's error in it only above the hooks.
func noScript(err error, cmds []redis.Cmder) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") ||
		slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") })
}

func fail(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

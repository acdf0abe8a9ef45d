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

// ErrLostReply is the error of a command that was carried out, after LoseReply dropped its reply.
// It is a network error.
var ErrLostReply error = &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}

// Reply is a command of a script, as hooks see it: package script does not send a *redis.Cmd itself.
type Reply interface {
	redis.Cmder
	Result() (any, error)
	Slice() ([]any, error)
	Val() any
	SetVal(value any)
}

var _ Reply = (*redis.Cmd)(nil)

// Match chooses commands.
type Match func(redis.Cmder) bool

// Any chooses every command.
func Any(redis.Cmder) bool { return true }

// Named chooses commands by name: Named("set", "evalsha"). A script that the server does not know
// yet is sent again as EVAL: to match the first call of one, too, name both.
func Named(names ...string) Match {
	return func(cmd redis.Cmder) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, cmd.Name()) })
	}
}

// Script chooses the calls of one script, by EVAL or EVALSHA, read-only or not. hash is
// redis.Script's Hash.
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

// Faults makes a real client misbehave: client.AddHook(faults). The zero value only counts. It is
// above go-redis's retries, so go-redis does not retry an error that it returns; RunTwice plays
// that retry. It is below those of package script: a fault of a command lasts for all its attempts,
// which count as one. See Wire for faults below both.
//
// A pipeline matches when one of its commands does, and the fault applies to all of it, as it would
// on the wire. A transaction's MULTI and EXEC count as commands. HELLO, AUTH, SELECT, CLIENT and
// READONLY pass and do not count: go-redis opens its connections with them, at any time.
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
	left  int // how often it still applies; below 0: always
	err   error
	delay time.Duration
	gate  *Gate
	hit   []redis.Cmder // that have met loseReply or failBefore
}

// LoseReply carries out the first n matching commands and returns ErrLostReply instead of the
// reply. A negative n means all. A NOSCRIPT reply does not count and is returned, because nothing
// was carried out. Neither does a fast path's reply that it did nothing.
func (f *Faults) LoseReply(match Match, n int) {
	f.add(&rule{kind: loseReply, match: match, left: n})
}

// RunTwice carries out the first n matching commands twice and returns the second reply: a lost
// reply, followed by go-redis's resend. A negative n means all. A NOSCRIPT reply does not count.
func (f *Faults) RunTwice(match Match, n int) {
	f.add(&rule{kind: runTwice, match: match, left: n})
}

// FailBefore returns err for the first n matching commands and sends nothing. A negative n means
// all.
func (f *Faults) FailBefore(match Match, n int, err error) {
	f.add(&rule{kind: failBefore, match: match, left: n, err: err})
}

// Delay delays every matching command by d.
func (f *Faults) Delay(match Match, d time.Duration) {
	f.add(&rule{kind: delayed, match: match, left: -1, delay: d})
}

// Gate holds every matching command, unsent, until the gate is released.
func (f *Faults) Gate(match Match) *Gate {
	g := newGate()
	f.add(&rule{kind: gateBefore, match: match, left: -1, gate: g})
	return g
}

// GateReply sends every matching command and holds its reply until the gate is released.
func (f *Faults) GateReply(match Match) *Gate {
	g := newGate()
	f.add(&rule{kind: gateAfter, match: match, left: -1, gate: g})
	return g
}

// Clear removes all faults. Gates stay for the commands that wait there, and so do the counts.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// CountCommands returns how many commands the client has received since the start or ResetCounts. A
// script is one, a pipeline is as many as it has.
func (f *Faults) CountCommands() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

// CountNamed returns how many of them had that name, in lower case.
func (f *Faults) CountNamed(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

// ResetCounts sets the counts to 0.
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

// DialHook implements redis.Hook and does nothing.
func (f *Faults) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook applies faults to single commands.
func (f *Faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.strike(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook applies faults to pipelines and transactions.
func (f *Faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.strike(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

func (f *Faults) strike(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return !setUp(cmd) }) {
		return send()
	}
	if err := f.again(cmds); err != nil {
		return fail(cmds, err)
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
				f.strikes(r, cmds)
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
			if !unknown && !special(cmds) && f.spend(r) {
				err = fail(cmds, fmt.Errorf("redistest: %w", ErrLostReply))
				f.strikes(r, cmds)
			}
		case gateAfter:
			if unknown { // nothing was carried out: the script is sent again with its text
				continue
			}
			if held := r.gate.pass(ctx, cmds); held != nil {
				err = fail(cmds, held)
			}
		}
	}
	return err
}

// strikes remembers which commands have met a rule.
func (f *Faults) strikes(r *rule, cmds []redis.Cmder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.hit = append(r.hit, cmds...)
}

// again returns the error that these commands have met before, or nil.
func (f *Faults) again(cmds []redis.Cmder) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return slices.Contains(r.hit, cmd) }) {
			if r.kind == failBefore {
				return r.err
			}
			return fmt.Errorf("redistest: %w", ErrLostReply)
		}
	}
	return nil
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
	// match is the test's code, so the lock is not held.
	return slices.DeleteFunc(rules, func(r *rule) bool { return !slices.ContainsFunc(cmds, r.match) })
}

// setUp reports whether go-redis opens connections with the command: those pass through the hooks,
// too.
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

// noScript looks at the commands, too: go-redis stores a single command's error in it only above
// the hooks.
func noScript(err error, cmds []redis.Cmder) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") ||
		slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") })
}

// special looks for a fast path of one session that leaves the work to the full path.
func special(cmds []redis.Cmder) bool {
	return slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool {
		c, ok := cmd.(Reply)
		if !ok {
			return false
		}
		results, _ := c.Val().([]any)
		if len(results) != 1 {
			return false
		}
		first, _ := results[0].([]any)
		return len(first) == 1 && first[0] == "special"
	})
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

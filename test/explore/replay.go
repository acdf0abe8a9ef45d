package explore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// local is the state of a process: a function of its replies so far. It does not change. The same
// replies lead to the same local, so a program runs again for each reply only once.
type local struct {
	proc     int
	number   int // of the life
	before   *local
	response response // the response that led here

	next  *request // nil: the life is over
	sent  int      // commands of next that were carried out, for a pipeline
	had   []any    // and their replies
	facts []string // reported so far

	form *form
	then map[string]*local
}

// request is a command, or a pipeline.
type request struct {
	cmds [][]string
}

// response is the reply to a process's request, or its error.
type response struct {
	replies []any
	err     error // of the request as a whole
}

// errFault is the error of a request or a reply that is lost for good. Clients do not retry it:
// repetitions are separate steps.
var errFault = errors.New("explore: the connection was cut")

// atStart reports whether the life has not done anything yet.
func (l *local) atStart() bool { return l.before == nil && l.sent == 0 }

// player runs programs up to their next request.
type player struct {
	processes []Process
	client    *redis.Client
	bubble    func(func())
	db        *Database
	roots     map[[2]int]*local
	Runs      int // programs that were run again

	life      *Life
	responses []response
	pending   *request
	strange   error
}

// newPlayer plays processes. bubble runs a function in a new synctest bubble, where all clocks begin at
// the same time and nothing takes time.
func newPlayer(db *Database, processes []Process, bubble func(func())) *player {
	p := &player{processes: processes, db: db, bubble: bubble, roots: map[[2]int]*local{}}
	p.client = redis.NewClient(&redis.Options{Addr: "explore.invalid:0"})
	p.client.AddHook(p)
	return p
}

// start is the beginning of a life.
func (p *player) start(proc, number int) *local {
	at := [2]int{proc, number}
	l := p.roots[at]
	if l == nil {
		l = &local{proc: proc, number: number}
		f := newFormer()
		p.play(l, f)
		p.roots[at] = l
	}
	return l
}

// give is the local of a process after the response to its request.
func (p *player) give(l *local, a response) *local {
	key := exactly(a.replies)
	if a.err != nil {
		key = a.err.Error()
	}
	if next, ok := l.then[key]; ok {
		return next
	}
	next := &local{proc: l.proc, number: l.number, before: l, response: a}
	f := newFormer().from(l.form)
	f.text(key)
	p.play(next, f)
	l.put(key, next)
	return next
}

// part is the local of a process after the next command of its pipeline was carried out, which the
// process does not know yet.
func (p *player) part(l *local, reply any) *local {
	had := append(l.had[:len(l.had):len(l.had)], reply)
	if len(had) == len(l.next.cmds) {
		whole := l
		for whole.sent > 0 {
			whole = whole.before
		}
		return p.give(whole, response{replies: had})
	}
	key := "part " + exactly(had)
	if next, ok := l.then[key]; ok {
		return next
	}
	next := &local{proc: l.proc, number: l.number, before: l, next: l.next, sent: len(had), had: had, facts: l.facts}
	f := newFormer().from(l.form)
	f.text(key)
	next.form = f.end()
	l.put(key, next)
	return next
}

// exactly is a reply as a text that no other reply has.
func exactly(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "nil"
	case error:
		return "-" + strconv.Quote(r.Error())
	case status:
		return "+" + strconv.Quote(string(r))
	case string:
		return strconv.Quote(r)
	case int:
		return strconv.Itoa(r)
	case []any:
		words := make([]string, len(r))
		for i := range r {
			words[i] = exactly(r[i])
		}
		return "{" + strings.Join(words, " ") + "}"
	}
	panic(fmt.Sprintf("explore: a reply of type %T", reply))
}

// whole is a local before any command of its pipeline was sent.
func (l *local) whole() *local {
	for l.sent > 0 {
		l = l.before
	}
	return l
}

func (l *local) put(key string, next *local) {
	if l.then == nil {
		l.then = map[string]*local{}
	}
	l.then[key] = next
}

// play runs l's program from its beginning, with its results so far, up to its next request.
func (p *player) play(l *local, f *former) {
	p.responses = p.responses[:0]
	for at := l; at.before != nil; at = at.before.whole() {
		p.responses = append(p.responses, at.response)
	}
	p.pending, p.strange = nil, nil
	p.Runs++
	was := rand.Reader
	p.bubble(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p.life = &Life{Context: ctx, Redis: p.client, proc: l.proc, number: l.number}
		rand.Reader = p.life // names are drawn, and must be the same in each run of a life
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.processes[l.proc].Run(p.life)
		}()
		<-done
	})
	rand.Reader = was
	if p.strange != nil {
		panic(fmt.Sprintf("explore: %s: %v", p.processes[l.proc].Name, p.strange))
	}
	l.next, l.facts = p.pending, p.life.facts
	if l.next != nil {
		for _, cmd := range l.next.cmds {
			for _, word := range cmd {
				f.text(word)
			}
		}
	}
	l.form = f.end()
}

// DialHook implements redis.Hook. Nothing is ever dialled.
func (p *player) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("explore: a command has passed the hook by")
	}
}

// ProcessHook implements redis.Hook.
func (p *player) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return p.call([]redis.Cmder{cmd}) }
}

// ProcessPipelineHook implements redis.Hook.
func (p *player) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error { return p.call(cmds) }
}

// call gives a request its response, or ends the run with it.
func (p *player) call(cmds []redis.Cmder) error {
	if p.pending != nil {
		runtime.Goexit() // a deferred call of an ended run
	}
	texts := make([][]string, len(cmds))
	for i, cmd := range cmds {
		text, err := p.wire(cmd.Args())
		if err != nil {
			cmd.SetErr(err)
			if len(cmds) > 1 {
				p.strange = fmt.Errorf("an unknown script in a pipeline: %v", cmd)
			}
			return err
		}
		texts[i] = text
	}
	n := len(p.responses)
	if n == 0 {
		p.pending = &request{texts}
		runtime.Goexit()
	}
	a := p.responses[n-1]
	p.responses = p.responses[:n-1]
	p.life.sent = append(p.life.sent, texts...)
	var first error
	for i, cmd := range cmds {
		err := a.err
		if err == nil {
			err = respond(cmd, a.replies[i])
		}
		if err != nil {
			cmd.SetErr(err)
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// noScriptError makes the caller send the source of a script of asynq's.
type noScriptError struct{}

func (noScriptError) Error() string { return errNoScript.Error() }
func (noScriptError) RedisError()   {}

// wire is a command as it is sent. EVAL becomes EVALSHA, because the protocol does not depend on
// which of the two it is.
func (p *player) wire(args []any) ([]string, error) {
	words := make([]string, len(args))
	for i, a := range args {
		word, err := wireWord(a)
		if err != nil {
			return nil, err
		}
		words[i] = word
	}
	switch strings.ToLower(words[0]) {
	case "eval":
		words[0], words[1] = "evalsha", p.db.scripts.learn(words[1])
	case "evalsha":
		if _, ok := p.db.scripts.source(words[1]); !ok {
			return nil, noScriptError{}
		}
	}
	return words, nil
}

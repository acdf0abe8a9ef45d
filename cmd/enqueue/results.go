package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"turnstile"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

const (
	// waiters is how many messages are awaited at the same time. Each takes a connection.
	waiters = 64

	// maxWaiting is how many messages of a file may be sent without a result. At that number
	// reading pauses until results come.
	maxWaiting = 20_000

	// waitSlice is how long one message may keep a slot that others want.
	waitSlice = 5 * time.Second

	// lookEvery is how often a message is checked while there are more messages than slots, and
	// lookPause the shortest rest of a slot between two checks.
	lookEvery = 500 * time.Millisecond
	lookPause = 10 * time.Millisecond
)

// results waits for the messages of a file and shows their results.
type results struct {
	ctx      context.Context // ends with Ctrl-C only
	o        options
	client   *turnstile.Client
	out      *output
	link     *away
	progress *progress
	fail     func(failure) // reports a message that did not succeed

	room    chan struct{} // one element for each sent message without a result
	waiting chan awaited  // never full: as long as room
	over    chan struct{}
	slots   sync.WaitGroup

	mu       sync.Mutex
	statuses map[session.Status]int
}

// awaited is a sent message.
type awaited struct {
	item
	until time.Time // zero: without a limit
}

func newResults(b *bulk, client *turnstile.Client) *results {
	return &results{
		ctx: b.outer, o: b.o, client: client, out: b.out, link: b.link, progress: b.progress, fail: b.fail,
		room: make(chan struct{}, maxWaiting), waiting: make(chan awaited, maxWaiting),
		over: make(chan struct{}), statuses: map[session.Status]int{},
	}
}

func (a *results) start() {
	for range waiters {
		a.slots.Go(func() {
			for {
				select {
				case m := <-a.waiting:
					a.attend(m)
				case <-a.over:
					return
				}
			}
		})
	}
}

// reserve makes room for one more message before it is sent.
func (a *results) reserve(ctx context.Context) bool {
	select {
	case a.room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// release frees the room of a message.
func (a *results) release() { <-a.room }

// add makes a message awaited.
func (a *results) add(it item) {
	m := awaited{item: it}
	m.message.Text, m.message.Meta, m.message.Attachments = "", nil, nil // they may be large
	if a.o.timeout > 0 {
		m.until = time.Now().Add(a.o.timeout)
	}
	a.progress.wait()
	a.waiting <- m
}

// drain waits until all have a result, or for Ctrl-C.
func (a *results) drain() {
	for range maxWaiting {
		if !a.reserve(a.ctx) {
			break
		}
	}
	close(a.over)
	a.slots.Wait()
}

// attend waits for a message. If there are more messages than slots it only checks it, so that
// results are shown as they come, in any order.
func (a *results) attend(m awaited) {
	if a.ctx.Err() != nil {
		a.waiting <- m // it counts as one without a result
		<-a.over
		return
	}
	o := a.o
	if n := len(a.room); n > waiters && !o.follow {
		stored, err := a.client.Session(m.session).Message(a.ctx, m.message.ID)
		if stored.Outcome != nil {
			a.end(m, *stored.Outcome)
			return
		}
		if err == nil && (m.until.IsZero() || time.Now().Before(m.until)) {
			select {
			case <-a.ctx.Done():
			case <-time.After(max(lookPause, lookEvery*waiters/time.Duration(n))):
			}
			a.waiting <- m
			return
		}
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	if !m.until.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, m.until, errTimeout)
		defer stop()
	}
	var end session.Outcome
	var err error
	if o.follow {
		reply := newReply(o, a.out, m)
		end, err = receipt.Follow(ctx, a.client.Session(m.session), m.message.ID, "", func(e session.Event) error {
			if e.Type == session.EventTurnEnded {
				reply.flush() // its last line, before the outcome is read
				return nil
			}
			reply.see(e)
			return nil
		})
		reply.flush()
		if err == nil {
			reply.remark(reply.story.End(end))
		} else {
			reply.remark(reply.story.Leave())
		}
	} else {
		defer time.AfterFunc(waitSlice, func() { cancel(errSlice) }).Stop()
		end, err = a.client.Session(m.session).Wait(ctx, m.message.ID)
	}
	err = waitError(ctx, err)
	switch {
	case err == nil:
		a.end(m, end)
	case a.ctx.Err() != nil, errors.Is(err, errSlice):
		a.waiting <- m
	default:
		a.failed(m, err)
	}
}

// errSlice is the cause with which a wait ends to make room for others.
var errSlice = errors.New("other messages wait for this slot")

func (a *results) failed(m awaited, err error) {
	f := failure{session: m.session, id: m.message.ID, line: m.line, code: exitOther}
	switch {
	case errors.Is(err, errTimeout):
		f.code, f.text = exitTimeout, a.o.noReply(fmt.Sprintf("message %s of %s", m.message.ID, m.session), a.link)
	case errors.Is(err, session.ErrNotFound):
		f.text = unknownText(m.message.ID)
	default:
		f.text = fmt.Sprintf("%s; message %s stays", redisconn.Explain(err), m.message.ID)
	}
	a.progress.leave()
	a.release()
	a.fail(f)
}

// end shows how a message ended.
func (a *results) end(m awaited, end session.Outcome) {
	a.mu.Lock()
	a.statuses[end.Status]++
	a.mu.Unlock()
	if a.o.json {
		a.out.outcome(end, m.line)
	} else if !a.o.follow && end.Reply != "" {
		a.out.text(prefixed(m.name(), end.Reply))
	}
	if end.Status != session.StatusDone {
		a.fail(failure{code: exitEnded, text: endText(end), line: m.line, said: true})
	}
	a.progress.result()
	a.release()
}

// none reports whether no message ended so far.
func (a *results) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.statuses) == 0
}

// name is the prefix of each line of a message's reply.
func (m awaited) name() string { return m.session + " " + m.message.ID }

// summary counts the messages by how they ended.
func (a *results) summary() string {
	var parts []string
	for _, status := range []session.Status{
		session.StatusDone, session.StatusFailed, session.StatusInterrupted,
		session.StatusExpired, session.StatusStopped, session.StatusDropped,
	} {
		if n := a.statuses[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	if n := len(a.waiting); n > 0 {
		parts = append(parts, fmt.Sprintf("%d without a result yet", n))
	}
	if len(parts) == 0 {
		return "no results"
	}
	return strings.Join(parts, ", ")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync"
	"time"

	"turnstile"
	"turnstile/pkg/session"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/text/printable"
)

const (
	// senders is how many messages are sent at the same time. All messages of a session go
	// through the same sender, which keeps their order.
	senders = 32

	// sendQueue is how many lines may wait for each sender.
	sendQueue = 8

	// sendGrace is how long after Ctrl-C the program waits for the results of its sends.
	sendGrace = 3 * time.Second
)

// errBroken ends the reading of a file when Redis takes no more messages.
var errBroken = errors.New("no more messages are accepted")

// bulk sends the messages of a file.
type bulk struct {
	outer context.Context // ends with Ctrl-C
	ctx   context.Context // ends with outer, and when Redis takes no more
	stop  context.CancelCauseFunc
	o     options
	in    *lines
	out   *output
	link  *away

	progress *progress
	results  *results // nil: without --wait

	mu       sync.Mutex
	codes    map[int]bool
	statuses map[receipt.Status]int
	bad      int     // lines
	skipped  lineSet // read, but not sent
	last     int     // the last line read
}

func newBulk(ctx context.Context, o options, in *lines, out *output, link *away) *bulk {
	b := &bulk{outer: ctx, o: o, in: in, out: out, link: link, codes: map[int]bool{}, statuses: map[receipt.Status]int{}}
	b.ctx, b.stop = context.WithCancelCause(ctx)
	return b
}

func (b *bulk) run(client *turnstile.Client, rdb redis.UniversalClient) (int, error) {
	defer b.stop(nil)
	if b.out.onTTY {
		b.progress = newProgress(b.out.screen, b.in.size, b.o.wait || b.o.follow)
		defer b.progress.end()
	}
	if b.o.wait || b.o.follow {
		b.results = newResults(b, client)
		b.results.start()
		b.link.wait()
		defer hintNoWorker(b.outer, client, func() {
			if b.results.none() {
				b.out.note("enqueue: no worker is running: messages wait until one is started")
			}
		})()
	}
	whole := b.sendAll(client, rdb)
	if b.results != nil {
		// Sent messages are awaited even if the rest of the file could not be sent.
		// Closing the connections ends waits at once.
		stop := context.AfterFunc(b.outer, func() { _ = rdb.Close() })
		b.progress.sent()
		b.results.drain()
		stop()
	}
	b.progress.end()
	b.report(whole)
	return worst(b.codes), nil
}

// sendAll sends the file's messages. whole says that the file was read to its end.
func (b *bulk) sendAll(client *turnstile.Client, rdb redis.UniversalClient) (whole bool) {
	sending, cancel := context.WithCancel(context.WithoutCancel(b.ctx))
	defer cancel()
	grace := time.AfterFunc(time.Hour, func() { cancel(); _ = rdb.Close() })
	grace.Stop()
	defer grace.Stop()
	defer context.AfterFunc(b.outer, func() { grace.Reset(sendGrace) })()

	var shards [senders]chan item
	var wg sync.WaitGroup
	for i := range shards {
		shards[i] = make(chan item, sendQueue)
		wg.Go(func() {
			for it := range shards[i] {
				b.send(sending, client, it)
			}
		})
	}
	whole = b.dispatch(&shards)
	for i := range shards {
		close(shards[i])
	}
	wg.Wait()
	return whole
}

// dispatch hands the file's messages to the senders of their sessions.
func (b *bulk) dispatch(shards *[senders]chan item) (whole bool) {
	entries := make(chan entry)
	// If a read blocks, it ends later than this function, or with the process.
	go b.in.each(b.ctx, b.o, entries)
	seed := maphash.MakeSeed()
	for {
		var e entry
		select {
		case <-b.ctx.Done():
			return false
		case e = <-entries:
		}
		if errors.Is(e.err, io.EOF) {
			return true
		}
		b.last = e.line
		if e.err != nil {
			b.progress.skip(e.bytes)
			b.badLine(e.line, failure{code: exitUsage, text: e.err.Error()})
			if e.broken {
				return false
			}
			continue
		}
		select {
		case <-b.ctx.Done():
			b.skip(e.line)
			return false
		case shards[maphash.String(seed, e.session)%senders] <- e.item:
		}
	}
}

// send sends one message.
func (b *bulk) send(ctx context.Context, client *turnstile.Client, it item) {
	if b.ctx.Err() != nil || b.results != nil && !b.results.reserve(b.ctx) {
		b.skip(it.line)
		return
	}
	r, err := receipt.Input(ctx, b.o.chat(client, it.session), outgoing(it.message, time.Duration(it.delay), it.route, it.agent))
	b.progress.line(it.bytes)
	waits := err == nil && r.Status != receipt.Refused && r.Status != receipt.Answered
	if b.results != nil && !waits {
		b.results.release()
	}
	if err != nil {
		b.sendFailed(ctx, it, r, err)
		return
	}
	if r.Invalid {
		b.badLine(it.line, badCommand(r))
		return
	}
	b.mu.Lock()
	b.statuses[r.Status]++
	b.mu.Unlock()
	if b.o.json {
		b.out.receipt(r, it.line)
	}
	if r.Status != receipt.Refused {
		b.out.did(r, it.line)
	}
	switch {
	case r.Status == receipt.Refused:
		f := refused(r)
		f.line = it.line
		b.fail(f)
	case r.Status == receipt.Answered && !b.o.json:
		b.out.text(prefixed(it.session, r.Reply))
	case waits && b.results != nil:
		b.results.add(it)
	}
}

func (b *bulk) sendFailed(ctx context.Context, it item, r receipt.Receipt, err error) {
	f := sendFailure(ctx, it.session, it.message, r, err, "the id")
	if errors.Is(err, session.ErrTooLarge) { // encoded as JSON, which only Send does
		b.badLine(it.line, f)
		return
	}
	f.line = it.line
	if f.code == exitOther {
		b.stop(errBroken) // so that no later message of the session overtakes this one
	}
	b.fail(f)
}

func (b *bulk) badLine(line int, f failure) {
	b.mu.Lock()
	b.bad++
	b.mu.Unlock()
	f.line = line
	b.fail(f)
}

func (b *bulk) fail(f failure) {
	b.mu.Lock()
	b.codes[f.code] = true
	b.mu.Unlock()
	b.out.fail(f)
}

func (b *bulk) skip(line int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skipped.add(line)
}

// report prints the totals.
func (b *bulk) report(whole bool) {
	missing := b.skipped.String()
	if !whole && b.ctx.Err() != nil {
		if missing != "" {
			missing += " and "
		}
		missing += fmt.Sprintf("all after line %d", b.last)
	}
	if b.outer.Err() != nil && (!whole || missing != "" || b.results != nil && len(b.results.waiting) > 0) {
		b.fail(failure{code: exitInterrupted, text: "interrupted; sent messages stay"})
	}
	if missing != "" {
		b.out.note("enqueue: not sent: " + missing)
	}
	if b.o.json {
		return
	}
	var in int
	var parts []string
	for _, status := range []receipt.Status{receipt.Accepted, receipt.Queued, receipt.Scheduled} {
		if n := b.statuses[status]; n > 0 {
			in += n
			parts = append(parts, fmt.Sprintf("%d %s", n, statusText(status)))
		}
	}
	text := fmt.Sprintf("%d sent", in)
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	for _, part := range []struct {
		n            int
		one, several string
	}{
		{b.statuses[receipt.Duplicate], "duplicate", "duplicates"},
		{b.statuses[receipt.Answered], "command", "commands"},
		{b.statuses[receipt.Refused], "refused", "refused"},
		{b.bad, "bad line", "bad lines"},
	} {
		switch {
		case part.n == 1:
			text += ", 1 " + part.one
		case part.n > 1:
			text += fmt.Sprintf(", %d %s", part.n, part.several)
		}
	}
	if b.results != nil {
		text += ", " + b.results.summary()
	}
	b.out.text(text + "\n")
}

// prefixed puts a name before each line of a text. It splits lines itself, so that a terminal
// cannot see a line without a name.
func prefixed(name, text string) string {
	text = printable.Text(text)
	var s strings.Builder
	for line := range strings.Lines(text) {
		s.WriteString(name + ": " + line)
	}
	if !strings.HasSuffix(text, "\n") {
		s.WriteByte('\n')
	}
	return s.String()
}

package lockguard

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
)

const (
	// quietAfter is how long a subscription may receive nothing before it is tested by a ping, or
	// ended if nobody waits.
	quietAfter = 10 * time.Second
	// maxFailures is how often in a row the first subscription may fail before its waiters get the
	// error.
	maxFailures = 3
)

// line notifies the waiters of one guard of a lock that was handed to them. One subscription serves
// all of them, and exists only while somebody waits.
type line struct {
	client  redis.UniversalClient
	channel string
	ctx     context.Context // of background work
	closing chan struct{}
	running sync.WaitGroup // waiters until they have left the line, background work, and the subscription

	listening     context.Context // of the subscription; close ends it
	stopListening context.CancelFunc

	mu      sync.Mutex
	closed  bool
	waiters map[string]*waiter // by token
	current *subscription      // nil if there is none
}

// waiter is one Acquire that waits.
type waiter struct {
	granted chan int64    // gets the fencing token of a grant
	again   chan struct{} // ask Redis again: grants may have been missed
}

// subscription is one run of listen.
type subscription struct {
	ready chan struct{} // closed when Redis has confirmed the subscription
	ended chan struct{}
	err   error // why it ended; read after ended

	mu     sync.Mutex
	pubsub *redis.PubSub
}

func newLine(client redis.UniversalClient, channel string) *line {
	l := &line{client: client, channel: channel, closing: make(chan struct{}), waiters: map[string]*waiter{}}
	l.ctx = context.Background()
	l.listening, l.stopListening = context.WithCancel(l.ctx)
	return l
}

// subscribed reports whether a grant would be received.
func (l *line) subscribed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current != nil && l.current.confirmed()
}

func (s *subscription) confirmed() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// join adds a waiter, and returns when it can receive a grant. The caller must part.
func (l *line) join(ctx context.Context, token string) (*waiter, error) {
	w := &waiter{granted: make(chan int64, 1), again: make(chan struct{}, 1)}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.running.Add(1)
	l.waiters[token] = w
	s := l.current
	if s == nil {
		s = &subscription{ready: make(chan struct{}), ended: make(chan struct{})}
		l.current = s
		l.running.Go(func() { l.listen(s) })
	}
	l.mu.Unlock()

	var err error
	select {
	case <-s.ready:
		return w, nil
	case <-s.ended:
		err = s.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.closing:
		err = ErrClosed
	}
	l.part(token)
	return nil, err
}

// part undoes a join.
func (l *line) part(token string) {
	l.mu.Lock()
	delete(l.waiters, token)
	l.mu.Unlock()
	l.running.Done()
}

// spawn runs f in the background. close waits for it.
func (l *line) spawn(f func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // close no longer waits for it
		go f(l.ctx)
		return
	}
	l.running.Go(func() { f(l.ctx) })
}

func (l *line) close() {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	s := l.current
	l.mu.Unlock()
	if first {
		close(l.closing)
		l.stopListening()
	}
	if s != nil {
		s.replace(nil)
	}
	l.running.Wait()
}

// listen receives grants until nobody waits, the line is closed, or Redis refuses.
func (l *line) listen(s *subscription) {
	defer func() {
		l.mu.Lock()
		if l.current == s {
			l.current = nil
		}
		l.mu.Unlock()
		s.replace(nil)
		close(s.ended)
	}()
	pubsub := l.client.Subscribe(l.listening, l.channel)
	s.replace(pubsub)
	failures, tested := 0, false
	for {
		if l.listening.Err() != nil { // close may have come before replace
			s.err = ErrClosed
			return
		}
		message, err := pubsub.ReceiveTimeout(l.listening, quietAfter)
		switch {
		case err == nil:
			failures, tested = 0, false
			l.deliver(s, message)
		case isTimeout(err) && !tested:
			if l.endUnused(s) {
				return
			}
			tested = true
			_ = pubsub.Ping(l.listening)
		case isTimeout(err): // no reply to the ping either
			tested = false
			pubsub = l.client.Subscribe(l.listening, l.channel)
			s.replace(pubsub)
		default:
			failures++
			if redisconn.Refused(err) || (failures >= maxFailures && !s.confirmed()) {
				s.err = err
				return
			}
			select { // Receive connects again by itself
			case <-time.After(min(time.Second, 10*time.Millisecond<<min(failures, 7))):
			case <-l.closing:
			}
		}
	}
}

// deliver hands one message of the subscription to its waiter.
func (l *line) deliver(s *subscription, message any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m := message.(type) {
	case *redis.Subscription:
		if !s.confirmed() {
			close(s.ready)
			return
		}
		// The connection is a new one: grants in between are lost.
		for _, w := range l.waiters {
			select {
			case w.again <- struct{}{}:
			default:
			}
		}
	case *redis.Message:
		token, text, _ := strings.Cut(m.Payload, " ")
		fence, err := strconv.ParseInt(text, 10, 64)
		w := l.waiters[token]
		if w == nil || err != nil {
			return // the waiter has left, and its release passes the grant on
		}
		select {
		case <-w.granted: // the newest counts
		default:
		}
		w.granted <- fence // has room: only this goroutine sends
	}
}

// endUnused ends the subscription if nobody waits, and reports whether it did.
func (l *line) endUnused(s *subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiters) > 0 {
		return false
	}
	l.current = nil
	return true
}

// replace closes the subscription's connection and puts another in its place.
func (s *subscription) replace(pubsub *redis.PubSub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pubsub != nil {
		_ = s.pubsub.Close()
	}
	s.pubsub = pubsub
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

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

	"turnstile/internal/redis/redisconn"
)

const (
	// quietAfter is how long a subscription may receive nothing before it is tested by a ping, or
	// ended if nobody waits.
	quietAfter = 10 * time.Second

	reconnectPause = 100 * time.Millisecond
)

// line notifies the waiters of one guard of a lock that was handed to them. One subscription serves
// all of them. It exists only while somebody waits.
type line struct {
	rdb     redis.UniversalClient
	channel string

	mu        sync.Mutex
	waiters   map[string]chan news // by token
	listening bool
	confirmed bool // by Redis: a grant is received
}

// news is a grant with its fencing token. Without one, grants may have been missed: ask Redis.
type news struct {
	fence int64
	err   error // the subscription failed
}

func (l *line) subscribed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.confirmed
}

// join adds a waiter. It receives news once it can receive a grant. The caller must part.
func (l *line) join(token string) <-chan news {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := make(chan news, 1)
	l.waiters[token] = w
	if l.confirmed {
		w <- news{}
	} else if !l.listening {
		l.listening = true
		go l.listen()
	}
	return w
}

// part undoes a join.
func (l *line) part(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, token)
}

// listen receives grants until nobody waits, or Redis refuses.
func (l *line) listen() {
	ctx := context.Background()
	pubsub := l.rdb.Subscribe(ctx, l.channel)
	defer func() { _ = pubsub.Close() }()
	for tested := false; ; {
		message, err := pubsub.ReceiveTimeout(ctx, quietAfter)
		if err == nil {
			tested = false
			l.deliver(message)
			continue
		}
		if l.end(err) {
			return
		}
		var timeout net.Error
		switch {
		case !errors.As(err, &timeout) || !timeout.Timeout():
			time.Sleep(reconnectPause) // ReceiveTimeout connects again
		case !tested:
			_ = pubsub.Ping(ctx)
			tested = true
		default: // no reply to the ping either
			_ = pubsub.Close()
			pubsub = l.rdb.Subscribe(ctx, l.channel)
			tested = false
		}
	}
}

// end ends the subscription after an error if nobody waits, or if the error stays. It reports whether
// it did.
func (l *line) end(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiters) > 0 && redisconn.MayPass(err) {
		return false
	}
	l.listening, l.confirmed = false, false
	l.tellAll(news{err: err})
	return true
}

// deliver hands one message of the subscription to its waiters.
func (l *line) deliver(message any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m := message.(type) {
	case *redis.Subscription: // also of a new connection: grants before it are lost
		l.confirmed = true
		l.tellAll(news{})
	case *redis.Message:
		token, text, _ := strings.Cut(m.Payload, " ")
		fence, _ := strconv.ParseInt(text, 10, 64)
		l.tell(token, news{fence: fence})
	}
}

func (l *line) tellAll(n news) {
	for token := range l.waiters {
		l.tell(token, n)
	}
}

// tell replaces the news that a waiter has not read yet: only the newest counts. A waiter that has left
// passes a grant on by its release.
func (l *line) tell(token string, n news) {
	if w := l.waiters[token]; w != nil {
		select {
		case <-w:
		default:
		}
		w <- n // has room: the caller holds l.mu
	}
}

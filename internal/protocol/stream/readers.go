package stream

import (
	"context"
	"encoding/json"
	"regexp"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// WatchSignals names the channel on which clients ask all workers for notices of new events.
const WatchSignals = "watch"

// WorkerSignals names the channel on which a worker reports that it has just started, and knows of
// no requests yet.
const WorkerSignals = "workers"

// subscribeTimeout bounds the wait for the subscription at the start, in case Redis hangs.
const subscribeTimeout = 5 * time.Second

// watchedSessions is how many sessions a worker sends notices for. It ignores further ones.
const watchedSessions = 200_000

// watch is a client's request for notices: until it ends, workers that write events to a stream
// publish its key to reader's channel.
type watch struct {
	Reader   string   `json:"reader"`
	TTL      int64    `json:"ttl_ms"`
	Sessions []string `json:"sessions"`
}

// Watch asks the running workers for notices of these sessions' events, for ttl. reader is the
// client's, see Notices.
func Watch(ctx context.Context, rdb redis.UniversalClient, reader string, ttl time.Duration, sessions []string) error {
	text, err := json.Marshal(watch{reader, ttl.Milliseconds(), sessions})
	if err != nil {
		return err
	}
	return rdb.Publish(ctx, rediskey.Signal(WatchSignals), text).Err()
}

// readerName is the form of Watch's reader. No other program has such a channel.
var readerName = regexp.MustCompile(`^reader-[A-Z0-9]{10,40}$`)

// Readers are the clients that asked this worker for notices.
type Readers struct {
	mu      sync.RWMutex
	until   map[string]map[string]time.Time // by session and reader
	swept   time.Time
	streams chan string // sessions with new events
}

// NewReaders returns Readers without requests.
func NewReaders() *Readers {
	return &Readers{until: map[string]map[string]time.Time{}, streams: make(chan string, 10_000)}
}

// Add stores a request, and ignores one that cannot be read.
func (r *Readers) Add(payload string) {
	var w watch
	if json.Unmarshal([]byte(payload), &w) != nil || !readerName.MatchString(w.Reader) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.swept) > time.Minute {
		r.sweep(now)
	}
	till := now.Add(min(time.Duration(w.TTL)*time.Millisecond, time.Minute))
	for _, s := range w.Sessions {
		if r.until[s] == nil {
			if len(r.until) >= watchedSessions {
				continue
			}
			r.until[s] = map[string]time.Time{}
		}
		r.until[s][w.Reader] = till
	}
}

// sweep removes requests that have expired. The caller holds r.mu.
func (r *Readers) sweep(now time.Time) {
	r.swept = now
	for s, all := range r.until {
		for reader, till := range all {
			if now.After(till) {
				delete(all, reader)
			}
		}
		if len(all) == 0 {
			delete(r.until, s)
		}
	}
}

// Wrote is called when events of a session were written. It does not wait.
func (r *Readers) Wrote(sessionKey string) {
	r.mu.RLock()
	followed := len(r.until[sessionKey]) > 0
	r.mu.RUnlock()
	if !followed {
		return
	}
	select {
	case r.streams <- sessionKey:
	default: // a reader finds the events by itself, only later
	}
}

// Publish sends notices until ctx ends, all pending ones in one round trip.
func (r *Readers) Publish(ctx context.Context, rdb redis.UniversalClient) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-r.streams:
			sessions := map[string]bool{s: true}
			for more := true; more && len(sessions) < 1000; {
				select {
				case s := <-r.streams:
					sessions[s] = true
				default:
					more = false
				}
			}
			// An error loses notices, which readers do not rely on.
			_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				r.notify(ctx, p, sessions)
				return nil
			})
		}
	}
}

func (r *Readers) notify(ctx context.Context, p redis.Pipeliner, sessions map[string]bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	now := time.Now()
	for s := range sessions {
		for reader, till := range r.until[s] {
			if now.Before(till) {
				p.Publish(ctx, rediskey.Signal(reader), rediskey.For(s).Events())
			}
		}
	}
}

// Notices calls receive with the key of a stream that has new events, until ctx ends. It calls
// started when a worker starts, which has to be asked by Watch, and ready once it is subscribed.
// Notices may get lost. reader is "reader-" and 10 to 40 capital letters and digits.
func Notices(ctx context.Context, rdb redis.UniversalClient, reader string, ready, started func(), receive func(stream string)) error {
	own := rediskey.Signal(reader)
	return Subscribe(ctx, rdb, []string{own, rediskey.Signal(WorkerSignals)}, ready, func(m *redis.Message) {
		if m.Channel == own {
			receive(m.Payload)
		} else {
			started()
		}
	})
}

// Subscribe calls receive with each message on some channels, until ctx ends, and ready once it is
// subscribed.
func Subscribe(ctx context.Context, rdb redis.UniversalClient, channels []string, ready func(), receive func(*redis.Message)) error {
	sub := rdb.Subscribe(ctx, channels...)
	defer sub.Close()
	if _, err := sub.ReceiveTimeout(ctx, subscribeTimeout); err != nil && ctx.Err() != nil {
		return nil
	}
	ready() // on an error too: go-redis subscribes again by itself
	messages := sub.Channel(redis.WithChannelSize(10_000))
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, open := <-messages:
			if !open {
				return redis.ErrClosed // the caller has closed the client
			}
			receive(m)
		}
	}
}

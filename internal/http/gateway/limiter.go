package gateway

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter bounds the requests and the streams of each token. The tokens are few, so it forgets
// none.
type limiter struct {
	rate    rate.Limit
	streams int

	mu     sync.Mutex
	tokens map[string]*usage
}

// usage is the usage of one token.
type usage struct {
	requests *rate.Limiter
	streams  int
}

func newLimiter(perSecond float64, streams int) *limiter {
	l := &limiter{rate: rate.Inf, streams: streams, tokens: map[string]*usage{}}
	if perSecond > 0 {
		l.rate = rate.Limit(perSecond)
	}
	return l
}

func (l *limiter) of(token string) *usage {
	u := l.tokens[token]
	if u == nil {
		burst := 1
		if l.rate != rate.Inf {
			burst = max(1, int(math.Ceil(float64(l.rate)))) // a second's requests at once
		}
		u = &usage{requests: rate.NewLimiter(l.rate, burst)}
		l.tokens[token] = u
	}
	return u
}

// request counts a request. If there are too many, it returns when the next one is allowed.
func (l *limiter) request(token string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(token).requests.Reserve()
	if wait = r.Delay(); wait == 0 {
		return 0, true
	}
	r.Cancel()
	return wait, false
}

// open counts a stream, unless there are too many. Call the function at its end.
func (l *limiter) open(token string) (closed func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(token)
	if l.streams > 0 && u.streams >= l.streams {
		return nil, false
	}
	u.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.streams--
	}, true
}

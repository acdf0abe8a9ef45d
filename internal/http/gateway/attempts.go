package gateway

import (
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Attempts bounds failed logins and unknown tokens, for each address and in total. An attempt counts
// before its token is checked, so simultaneous attempts are bounded too. A successful attempt is taken
// off the count afterwards.
type Attempts struct {
	now func() time.Time

	mu   sync.Mutex
	all  bucket
	from map[netip.Prefix]bucket // of the addresses with a bucket that is not full

	total   allowance
	cleaned time.Time // the last time that addresses were forgotten
}

// bucket is the time when a token bucket is full again. The zero time means full.
type bucket time.Time

// allowance is a token bucket's size, and the time after which another attempt is allowed.
type allowance struct {
	burst int
	every time.Duration
}

var (
	perAddress = allowance{10, 6 * time.Second}
	ofLogins   = allowance{100, time.Second}

	// ofTokens bounds the addresses remembered. It is high, since a refused request may be no
	// guess.
	ofTokens = allowance{100_000, time.Millisecond}
)

// NewLogins returns the Attempts of a login page.
func NewLogins() *Attempts { return newAttempts(ofLogins) }

func newAttempts(total allowance) *Attempts {
	return &Attempts{now: time.Now, from: map[netip.Prefix]bucket{}, total: total}
}

// take takes one out of a bucket. If the bucket is empty, it returns the time to try again.
func (a allowance) take(b bucket, now time.Time) (rest bucket, wait time.Duration) {
	full := time.Time(b)
	if full.Before(now) {
		full = now
	}
	full = full.Add(a.every)
	if wait = full.Sub(now) - time.Duration(a.burst)*a.every; wait > 0 {
		return b, wait
	}
	return bucket(full), 0
}

// wait returns the time until an address may fail again; 0: it may.
func (l *Attempts) wait(from netip.Prefix) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, failed := l.from[from]
	if !failed {
		return 0
	}
	_, wait := perAddress.take(b, l.now())
	return max(wait, 0)
}

// Begin counts a request's attempt. If there are too many it returns how long to wait. Otherwise the
// caller calls succeeded unless the attempt failed.
func (l *Attempts) Begin(r *http.Request) (succeeded func(), wait time.Duration) {
	return l.begin(addressOf(r))
}

// begin counts an attempt from an address. If there are too many it returns how long to wait.
// Otherwise the caller calls succeeded unless the attempt failed.
func (l *Attempts) begin(from netip.Prefix) (succeeded func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	all, waitAll := l.total.take(l.all, now)
	one, waitOne := perAddress.take(l.from[from], now)
	if wait = max(waitAll, waitOne); wait > 0 {
		return nil, wait
	}
	// The total bounds this map: an address is in it for a minute after its last attempts.
	if now.Sub(l.cleaned) > time.Second {
		l.cleaned = now
		maps.DeleteFunc(l.from, func(_ netip.Prefix, b bucket) bool { return !time.Time(b).After(now) })
	}
	l.all, l.from[from] = all, one
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = bucket(time.Time(l.all).Add(-l.total.every))
		if b, ok := l.from[from]; ok {
			l.from[from] = bucket(time.Time(b).Add(-perAddress.every))
		}
	}, 0
}

// addressOf is the address that a request comes from. An IPv6 network counts as one address, since
// a visitor has all of it. With a proxy in front it is the proxy's, since any client can send
// X-Forwarded-For.
func addressOf(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{} // not TCP: all such requests count as one address
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

package gateway

import (
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Attempts bounds failed logins and unknown tokens: those of each address, and those of all. An attempt
// counts before its token is checked, so attempts at the same moment are bounded too. One that succeeds
// does not count afterwards.
type Attempts struct {
	now func() time.Time

	mu   sync.Mutex
	all  bucket
	from map[netip.Prefix]bucket // of those addresses whose bucket is not full

	total   allowance
	cleaned time.Time // when addresses were last forgotten
}

// bucket is when a token bucket is full again. The zero time: it is full.
type bucket time.Time

// allowance is how many attempts may fail at once, and how often another one may then.
type allowance struct {
	burst int
	every time.Duration
}

var (
	perAddress = allowance{10, 6 * time.Second}
	ofLogins   = allowance{100, time.Second}

	// ofTokens bounds what is remembered of addresses. It is high: what it refuses may be no guess.
	ofTokens = allowance{100_000, time.Millisecond}
)

// NewLogins returns the Attempts of a login page.
func NewLogins() *Attempts { return newAttempts(ofLogins) }

func newAttempts(total allowance) *Attempts {
	return &Attempts{now: time.Now, from: map[netip.Prefix]bucket{}, total: total}
}

// take takes one out of a bucket. From an empty bucket it takes nothing, and returns when it is not.
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

// wait returns how long an address has to wait until it may fail again, 0 if it may now.
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

// Begin counts a request's attempt. If it is one too many it returns how long to wait. Otherwise call
// succeeded if it was none that failed.
func (l *Attempts) Begin(r *http.Request) (succeeded func(), wait time.Duration) {
	return l.begin(addressOf(r))
}

// begin counts an attempt from an address. If it is one too many it returns how long to wait.
// Otherwise call succeeded if it was none that failed.
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

// addressOf is the address that a request comes from. An IPv6 network counts as one address: a
// visitor has all of it. Behind a proxy it is the proxy's, since any client can send
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

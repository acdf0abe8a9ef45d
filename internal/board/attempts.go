package board

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// attempts bounds failed logins: those of each address, and those of all. An attempt counts before
// its token is checked, so attempts at the same moment are bounded too. One that succeeds does not
// count afterwards.
type attempts struct {
	now func() time.Time

	mu   sync.Mutex
	all  bucket
	from map[netip.Prefix]bucket // of those addresses whose bucket is not full
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
	inTotal    = allowance{100, time.Second}
)

func newAttempts() *attempts {
	return &attempts{now: time.Now, from: map[netip.Prefix]bucket{}}
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

// begin counts an attempt from an address. If it is one too many it returns how long to wait.
// Otherwise call succeeded if it was none that failed.
func (l *attempts) begin(from netip.Prefix) (succeeded func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	all, waitAll := inTotal.take(l.all, now)
	one, waitOne := perAddress.take(l.from[from], now)
	if wait = max(waitAll, waitOne); wait > 0 {
		return nil, wait
	}
	// The total bounds this map: an address is in it for a minute after its last attempts.
	for address, b := range l.from {
		if !time.Time(b).After(now) {
			delete(l.from, address)
		}
	}
	l.all, l.from[from] = all, one
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = bucket(time.Time(l.all).Add(-inTotal.every))
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

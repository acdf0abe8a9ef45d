package gateway

import (
	"net/http"
	"time"
)

// FailedLogins are attempts at a time of the test's.
type FailedLogins struct {
	*Attempts
	at time.Time
}

// NewAttempts returns FailedLogins of now.
func NewAttempts() *FailedLogins {
	a := &FailedLogins{Attempts: NewLogins(), at: time.Now()}
	a.now = func() time.Time { return a.at }
	return a
}

// Pass lets time pass.
func (a *FailedLogins) Pass(d time.Duration) { a.at = a.at.Add(d) }

// Begin is an attempt from an address. It returns how long to wait.
func (a *FailedLogins) Begin(address string, succeeds bool) time.Duration {
	succeeded, wait := a.Attempts.Begin(&http.Request{RemoteAddr: address})
	if succeeds && wait == 0 {
		succeeded()
	}
	return wait
}

// Remembered is how many addresses are remembered.
func (a *FailedLogins) Remembered() int { return len(a.from) }

// Meanings has the status of each code.
func Meanings() map[Code]int {
	all := map[Code]int{}
	for code, m := range meanings {
		all[code] = m.status
	}
	return all
}

// OpenStreams is how many streams are open.
func (g *Gateway) OpenStreams() int {
	g.streams.mu.Lock()
	defer g.streams.mu.Unlock()
	return len(g.streams.open)
}

// SetHeartbeat sets how often an idle stream gets a comment. Call it before the first stream.
func (g *Gateway) SetHeartbeat(pause time.Duration) { g.heartbeat = pause }

// OpenWaits is how many requests wait for an outcome.
func (g *Gateway) OpenWaits() int {
	g.waits.mu.Lock()
	defer g.waits.mu.Unlock()
	return len(g.waits.open)
}

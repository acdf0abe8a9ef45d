package board

import (
	"net/http"
	"time"
)

// Attempts are failed logins at a time of the test's.
type Attempts struct {
	*attempts
	at time.Time
}

// NewAttempts returns Attempts of now.
func NewAttempts() *Attempts {
	a := &Attempts{attempts: newAttempts(), at: time.Now()}
	a.now = func() time.Time { return a.at }
	return a
}

// Pass lets time pass.
func (a *Attempts) Pass(d time.Duration) { a.at = a.at.Add(d) }

// Begin is an attempt from an address, and returns how long it has to wait.
func (a *Attempts) Begin(address string, succeeds bool) time.Duration {
	succeeded, wait := a.begin(addressOf(&http.Request{RemoteAddr: address}))
	if succeeds && wait == 0 {
		succeeded()
	}
	return wait
}

// Remembered is how many addresses are remembered.
func (a *Attempts) Remembered() int { return len(a.from) }

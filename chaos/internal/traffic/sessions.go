package traffic

import (
	"fmt"
	"math/rand/v2"
)

// A hot session gets many messages, so that most find a running turn. There are a few of each kind
// at a time. One is replaced after hotFor messages, because agents get the whole history.
const (
	hotPlaces = 12
	hotFor    = 250
)

// followedPlaces is how many places of a kind have followed streams.
const followedPlaces = 2

// hot is a place of a hot session.
type hot struct {
	key   string
	lives int // sessions so far
}

// session is one of the hot sessions of a kind, or a new session.
func (t *Traffic) session(rng *rand.Rand, kind string) string {
	if rng.IntN(3) == 0 {
		return fmt.Sprintf("%s:once-%d", kind, t.n+1)
	}
	return t.hotSession(rng, kind)
}

// hotSession is one of the hot sessions of a kind.
func (t *Traffic) hotSession(rng *rand.Rand, kind string) string {
	n := rng.IntN(hotPlaces)
	place := fmt.Sprintf("%s:%d", kind, n)
	h := t.hot[place]
	if h == nil {
		h = &hot{}
		t.hot[place] = h
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.key == "" || t.sessions[h.key] >= hotFor {
		h.lives++
		h.key = fmt.Sprintf("%s-%d", place, h.lives)
		t.sessions[h.key] = 0 // a command may be all that it gets
		if n < followedPlaces {
			t.begun(h.key)
		}
	}
	return h.key
}

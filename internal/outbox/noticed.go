package outbox

import "sync"

// maxNoticed bounds the sessions that wait for a slot. The index has the others.
const maxNoticed = 100_000

// noticed are the sessions with new records that wait for a slot, each once. A session may wait while
// it is visited, because a slow line must not delay its other lines. Two visits never deliver the same
// line: its lease keeps them apart.
type noticed struct {
	wake chan struct{} // has a value after add

	mu      sync.Mutex
	line    []string
	waiting map[string]bool
}

func newNoticed() noticed {
	return noticed{wake: make(chan struct{}, 1), waiting: map[string]bool{}}
}

func (n *noticed) add(session string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting[session] || len(n.line) >= maxNoticed {
		return
	}
	n.waiting[session] = true
	n.line = append(n.line, session)
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns the session that has waited longest.
func (n *noticed) take() (session string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.line) == 0 {
		return "", false
	}
	session, n.line = n.line[0], n.line[1:]
	delete(n.waiting, session)
	return session, true
}

// rest takes all sessions that wait.
func (n *noticed) rest() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := n.line
	n.line, n.waiting = nil, map[string]bool{}
	return rest
}

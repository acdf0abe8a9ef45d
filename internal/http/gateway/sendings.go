package gateway

import "sync"

const (
	// sendingsMost is how many bytes wait for the clients of all streams.
	sendingsMost = 32 << 20

	// followHolds is what the reader of one message's events holds, and allHolds that of all sessions' events: the page
	// that they show.
	followHolds = 64 << 10
	allHolds    = 256 << 10
)

// sendings are the bytes that wait for the clients of streams. If they become too many, the clients that have not read for
// the longest time lose their streams.
type sendings struct {
	most int

	mu    sync.Mutex
	bytes int
	next  int
	open  map[int]waitingSend // by the order in which they began
}

type waitingSend struct {
	bytes int
	cut   func()
}

func newSendings(most int) *sendings { return &sendings{most: most, open: map[int]waitingSend{}} }

// begin counts bytes that are sent, until end is called. cut ends another stream's send.
func (s *sendings) begin(cut func(), bytes int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	number := s.next
	s.open[number] = waitingSend{bytes, cut}
	for s.bytes += bytes; s.bytes > s.most && len(s.open) > 1; {
		slowest := number
		for n := range s.open {
			slowest = min(slowest, n)
		}
		s.open[slowest].cut()
		s.drop(slowest)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(number)
	}
}

// drop forgets a sending, if it was not cut before.
func (s *sendings) drop(number int) {
	s.bytes -= s.open[number].bytes
	delete(s.open, number)
}

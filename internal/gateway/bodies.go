package gateway

import (
	"io"

	"golang.org/x/sync/semaphore"
)

// bodiesMost is how many bytes of requests' bodies a gateway reads at once, or four of the largest ones.
// Each takes some six times as much until its message is stored: decoded, encoded, sent.
const bodiesMost = 32 << 20

// smallBody is what every body may have, without asking.
const smallBody = 512

// bodies bounds the bytes of the bodies that are being read, and of those whose requests work.
type bodies struct{ room *semaphore.Weighted }

func newBodies(largest int64) bodies {
	return bodies{semaphore.NewWeighted(max(bodiesMost, 4*largest))}
}

// read reads a body of about length bytes; -1: it is unknown. It takes room for what has come, not for
// what is announced: a slow sender holds little. The caller gives taken back, also after an error.
func (b bodies) read(body io.Reader, length int64) (data []byte, taken int64, err error) {
	data = make([]byte, 0, smallBody)
	for {
		if len(data) == cap(data) {
			more := int64(cap(data))
			if rest := length + 1 - int64(cap(data)); rest > 0 { // one more, to see the end
				more = min(more, rest)
			}
			if !b.room.TryAcquire(more) {
				return nil, taken, Fail(Overloaded, "Too many large bodies arrive. Nothing was changed.")
			}
			taken += more
			grown := make([]byte, len(data), int64(cap(data))+more)
			copy(grown, data)
			data = grown
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, taken, nil
		}
		if err != nil {
			return nil, taken, err
		}
	}
}

// freeBody gives the body's room back. A wait or a stream does not hold it.
func (r *Request) freeBody() {
	r.gateway.bodies.room.Release(r.held)
	r.held = 0
}

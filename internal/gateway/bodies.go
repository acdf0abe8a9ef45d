package gateway

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// bodiesMost is how many bytes of requests' bodies a gateway reads at once, or four of the largest ones.
// Each takes some six times as much until its message is stored: decoded, encoded, sent.
const bodiesMost = 32 << 20

// smallBody is what every body may have, without asking.
const smallBody = 512

// historyMost is the largest body with a history: a quarter of what is read at once, and not less than two
// of the largest bodies, for a history with the largest picture and a message with another one.
func historyMost(largest int64) int64 { return max(bodiesMost/4, 2*largest) }

// bodies bounds the bytes of the bodies that are being read, and of those whose requests work. One
// token's take three quarters at most, so that it cannot keep the others out.
type bodies struct {
	most int64

	mu    sync.Mutex
	taken int64
	by    map[string]int64 // by the names of tokens
}

func newBodies(largest int64) *bodies {
	return &bodies{most: max(bodiesMost, 4*largest), by: map[string]int64{}}
}

// take takes room for n bytes of a token's bodies, if there is as much.
func (b *bodies) take(token string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken+n > b.most || b.by[token]+n > b.most/4*3 {
		return false
	}
	b.taken += n
	b.by[token] += n
	return true
}

// free gives room back.
func (b *bodies) free(token string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
	if b.by[token] -= n; b.by[token] == 0 {
		delete(b.by, token)
	}
}

// readBody reads the body of a token's request, of at most most bytes. The caller frees taken, also after
// an error.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, token Token, most int64) (data []byte, taken int64, err error) {
	length := r.ContentLength
	if length < 0 { // unknown: it takes no more room than the largest one
		length = most
	}
	return g.bodies.read(token.Name, http.MaxBytesReader(w, r.Body, most), length)
}

// read reads a token's body of about length bytes; -1: it is unknown. It takes room for what has come,
// not for what is announced: a slow sender holds little. The caller frees taken, also after an error.
func (b *bodies) read(token string, body io.Reader, length int64) (data []byte, taken int64, err error) {
	data = make([]byte, 0, smallBody)
	for {
		if len(data) == cap(data) {
			more := int64(cap(data))
			if rest := length + 1 - int64(cap(data)); rest > 0 { // one more, to see the end
				more = min(more, rest)
			}
			if !b.take(token, more) {
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

// Form reads the form of a token's request, of one message's size at most, and takes room for it as for
// every body. Call free when the form is not used any more, also after an error.
func (g *Gateway) Form(w http.ResponseWriter, r *http.Request, token Token) (free func(), err error) {
	data, taken, err := g.readBody(w, r, token, g.bodyMost)
	if err == nil {
		r.Body = http.MaxBytesReader(w, io.NopCloser(bytes.NewReader(data)), g.bodyMost) // without it, a form may have 10 MB
		err = r.ParseForm()
	}
	return func() { g.bodies.free(token.Name, taken) }, err
}

// freeBody gives the body's room back. A wait or a stream does not hold it, so it must not hold the
// message either.
func (r *Request) freeBody() {
	r.gateway.bodies.free(r.Token.Name, r.held)
	r.held = 0
}

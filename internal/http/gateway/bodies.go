package gateway

import (
	"bytes"
	"io"
	"net/http"
)

// bodiesMost is how many bytes of request bodies a gateway reads at once, or four of the largest bodies.
// Each takes about six times as much until its message is stored: decoded, encoded, sent.
const bodiesMost = 32 << 20

// smallBody is the size that every body may have without a reservation.
const smallBody = 512

// historyMost is the largest body with a history: a quarter of bodiesMost, and at least two of the largest
// bodies, so that both the history and the message may have a picture of the largest size.
func historyMost(largest int64) int64 { return max(bodiesMost/4, 2*largest) }

// newBodies returns the budget of bodies, from their reading to the end of their requests.
func newBodies(largest int64) *budget { return newBudget(max(bodiesMost, 4*largest)) }

// readBody reads the body of a token's request, up to most bytes. The caller frees taken, also after an
// error.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, token Token, most int64) (data []byte, taken int64, err error) {
	length := r.ContentLength
	if length < 0 { // unknown: it reserves the largest body's room at most
		length = most
	}
	return g.bodies.read(token.Name, http.MaxBytesReader(w, r.Body, most), length)
}

// read reads a token's body of about length bytes, -1 if unknown. It reserves room for the bytes
// received and not for those announced, so a slow sender holds little. The caller frees taken, also
// after an error.
func (b *budget) read(token string, body io.Reader, length int64) (data []byte, taken int64, err error) {
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

// Form reads the form of a token's request, at most as large as one message, and reserves room for it
// as for every body. Call free when the form is no longer used, also after an error.
func (g *Gateway) Form(w http.ResponseWriter, r *http.Request, token Token) (free func(), err error) {
	data, taken, err := g.readBody(w, r, token, g.bodyMost)
	if err == nil {
		r.Body = http.MaxBytesReader(w, io.NopCloser(bytes.NewReader(data)), g.bodyMost) // without it, a form may have 10 MB
		err = r.ParseForm()
	}
	return func() { g.bodies.free(token.Name, taken) }, err
}

// freeBody releases the body's room. A wait or a stream does not reserve it, so it must not keep
// the message either.
func (r *Request) freeBody() {
	r.gateway.bodies.free(r.Token.Name, r.held)
	r.held = 0
}

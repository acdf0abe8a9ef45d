package gateway

import (
	"context"
	"net/http"
	"sync"
)

const (
	// responsesMost is how many bytes of responses wait for their clients at once, and smallResponse is the size that
	// every response may have without a reservation.
	responsesMost = 32 << 20
	smallResponse = 16 << 10

	// readersMost is how many requests of routes that read much do so at once. Each holds some MB, and keeps
	// Redis busy.
	readersMost = 4
)

// Reading waits until a request of the token may read much. Call done when the response is made: then it counts by its
// size.
func (g *Gateway) Reading(ctx context.Context, t Token) (done func(), err error) {
	if !g.readers.await(ctx, t.Name, 1) {
		return nil, Fail(Overloaded, "Too many requests read much at once: repeat it later.")
	}
	return sync.OnceFunc(func() { g.readers.free(t.Name, 1) }), nil
}

// Sending reserves room for a response of the token. Call sent when the client has it, or went away.
func (g *Gateway) Sending(t Token, bytes int) (sent func(), err error) {
	n := int64(bytes)
	if n <= smallResponse {
		return func() {}, nil
	}
	if !g.responses.take(t.Name, n) {
		return nil, Fail(Overloaded, "Too many large responses wait for their clients. The request may have been carried out.")
	}
	return func() { g.responses.free(t.Name, n) }, nil
}

// Reads has the request wait until it may read much. Respond ends that, as Waiting and Stream do, or a call of done.
func (r *Request) Reads(ctx context.Context) (done func(), err error) {
	if r.read == nil {
		r.read, err = r.gateway.Reading(ctx, r.Token)
	}
	return r.made, err
}

// made ends the reading of a request: its response is made, or it waits.
func (r *Request) made() {
	if r.read != nil {
		r.read()
		r.read = nil
	}
}

// sending reserves room for the request's response, until its end.
func sending(w http.ResponseWriter, bytes int) (err error) {
	t, ok := w.(*tracked)
	if !ok {
		return nil // of another handler than a route's
	}
	t.request.made()
	t.request.sent, err = t.request.gateway.Sending(t.request.Token, bytes)
	return err
}

package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

const (
	// readTimeout is how long a body may take to arrive.
	readTimeout = 10 * time.Second

	// writeTimeout is how long one write to a client may take.
	writeTimeout = 10 * time.Second

	// workTimeout is how long a route may take in Redis, unless the route says otherwise.
	workTimeout = 5 * time.Second
)

// Request is one request to a route.
type Request struct {
	*http.Request
	ID      string // in the response, in problems and in the log
	Token   Token  // who sends it
	Session string // the session in the path, "" if it has none

	gateway *Gateway
	work    context.Context // nil before the first Work
	cancel  context.CancelFunc
	held    int64  // bytes of the body
	stream  func() // ends the count of a stream that is not open yet; nil: there is none
	read    func() // ends the count of a request that reads much; nil: it does not
	sent    func() // frees the room of the response; nil: it has none

	route    Route
	started  time.Time
	reported bool

	trace  string           // the traceparent of its own span; "": it has none
	traced func(status int) // ends the span

	did string // a change for the audit, if the route's permission does not say so
	by  string // the user of the token who did it
}

// Work is the context for the request's work in Redis. It does not end with the client's
// connection: a request that has arrived is carried out. Its deadline is the route's, counted from
// the first call.
func (r *Request) Work() context.Context {
	if r.work == nil {
		r.work, r.cancel = context.WithTimeout(context.WithoutCancel(r.Context()), r.route.Within)
	}
	return r.work
}

// end frees the request's resources.
func (r *Request) end() {
	r.freeBody()
	r.made()
	if r.sent != nil {
		r.sent()
	}
	if r.stream != nil {
		r.stream()
	}
	if r.cancel != nil {
		r.cancel()
	}
}

// Read reads the body. Its content type must be JSON.
func (r *Request) Read(w http.ResponseWriter) ([]byte, error) {
	data, err := r.ReadAny(w)
	if err == nil {
		err = r.saysJSON()
	}
	return data, err
}

func (r *Request) saysJSON() error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Fail(UnsupportedMediaType, "Send the header Content-Type: application/json.")
	}
	return nil
}

// ReadAny reads the body of any content type.
func (r *Request) ReadAny(w http.ResponseWriter) ([]byte, error) {
	most := r.gateway.bodyMost
	if r.route.History {
		most = historyMost(most)
	}
	data, taken, err := r.gateway.readBody(w, r.Request, r.Token, most)
	r.held += taken
	if err == nil {
		w.Header().Del("Connection")
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a wait lasts longer; after an error it ends the connection
	}
	var large *http.MaxBytesError
	var full *Problem
	switch {
	case errors.As(err, &full):
		return nil, full
	case errors.As(err, &large):
		return nil, Fail(BodyTooLarge, "The body has more than %d bytes.", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, Fail(RequestTimeout, "The body did not arrive within %s.", readTimeout)
	case err != nil:
		return nil, Fail(InvalidJSON, "The body ended early.")
	}
	return data, nil
}

// Decode reads the body, one JSON object, into a struct. Without a body it leaves the struct as it
// is, unless the body is required. Such a request has no query.
func (r *Request) Decode(w http.ResponseWriter, into any, required bool) error {
	if err := r.CheckQuery(); err != nil {
		return err
	}
	data, err := r.ReadAny(w)
	if err != nil || len(data) == 0 && !required {
		return err
	}
	if err := r.saysJSON(); err != nil {
		return err
	}
	if err := strictjson.DecodeNamed(data, into); err != nil {
		var unknown *strictjson.UnknownFieldsError
		if errors.As(err, &unknown) {
			return unknownFields(unknown.Names...)
		}
		return BadJSON(err)
	}
	return nil
}

func unknownFields(names ...string) *Problem {
	p := Fail(UnknownFields, "Unknown: %s.", strings.Join(names, ", "))
	p.Fields = names
	return p
}

// Number reads a number of the query, between least and most. Its default is otherwise.
func (r *Request) Number(name string, least, most, otherwise int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w %s %.100q: use a number from %d to %d", session.ErrInvalid, name, text, least, most)
	}
	return n, nil
}

// Bool reads true or false of the query, where it is optional.
func (r *Request) Bool(name string) (bool, error) {
	switch text := r.URL.Query().Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, Fail(InvalidRequest, "%s is %.100q; it is true or false.", name, text)
	}
}

// CheckQuery fails if the query cannot be read, or has a parameter twice or one that the route does
// not know.
func (r *Request) CheckQuery(known ...string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Fail(InvalidRequest, "The query cannot be read: %.200s.", err)
	}
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return Fail(InvalidRequest, "The query parameter %.100q is unknown here.", name)
		case len(values) > 1:
			return Fail(InvalidRequest, "The query parameter %s occurs more than once.", name)
		}
	}
	return nil
}

// requestID returns the client's X-Request-Id if it is fit for a log, else a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); session.ValidateID(id) == nil {
		return id
	}
	return strings.ToLower(rand.Text())
}

// TraceParent is the traceparent for the request's message: of the request's span, or the client's. "" without a valid
// one.
func (r *Request) TraceParent() string {
	if trace := r.gateway.deps.Trace; trace != nil && r.traced == nil && !r.reported {
		r.trace, r.traced = trace(traceParent(r.Header), r.route.Pattern, r.Session, r.ID, r.started)
	}
	return cmp.Or(r.trace, traceParent(r.Header))
}

func traceParent(h http.Header) string {
	if values := h.Values(traceHeader); len(values) == 1 {
		return wire.TraceParent(strings.TrimSpace(values[0]))
	}
	return ""
}

// allowWrite gives the next write to the client writeTimeout.
func allowWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

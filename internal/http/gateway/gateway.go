package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/internal/outbox"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// Config has a gateway's settings. A zero field means its default.
type Config struct {
	// Tokens has each token's permissions. nil: everybody may do everything, and only requests that
	// name this machine as their host are served.
	Tokens *Tokens

	// Hosts are the names by which requests may call the gateway, without a port. Empty: with
	// tokens any name.
	Hosts []string

	// Origins are the web pages' origins that may read responses (CORS).
	Origins []string

	// Rate is how many requests a token may send per second. 0: any number.
	Rate float64

	// Streams is how many streams a token may have open. 0: any number.
	Streams int

	// AnyoneDecides lets every token that may send decide agents' questions. Otherwise it needs a
	// sender of the running turn, or a token that may control.
	AnyoneDecides bool

	// Limits bound the size of one message, and so of a request's body.
	Limits session.Limits
}

// Deps are the parts that a gateway uses.
type Deps struct {
	Client *turnstile.Client
	Admin  *admin.Client
	Store  *store.Store

	// Ping checks that Redis can be reached, before a stream is opened. Optional.
	Ping func(context.Context) error

	// Destinations are the receivers of webhooks. While they are nil or not Known, a message may name any.
	Destinations *outbox.File

	// Metrics serves /metrics to tokens that may watch. Optional.
	Metrics http.Handler

	// Observer learns about requests. Optional.
	Observer Observer

	// Trace begins to trace a request that sends a message, and returns the traceparent for the message. sent is the
	// client's, or "". answered is called with the response's status. Optional.
	Trace func(sent, route, session, id string, began time.Time) (traceparent string, answered func(status int))

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Store has the gateway's calls to Redis, for packages that add routes or pages.
func (g *Gateway) Store() *store.Store { return g.deps.Store }

// MessageBytes is the largest size of one message in JSON, for packages that make messages of larger requests.
func (g *Gateway) MessageBytes() int { return g.config.Limits.WithDefaults().MessageBytes }

// Observer learns about requests and streams. Its methods must not block.
type Observer interface {
	// Answered reports a request to a route, as METHOD /path, with the status of the response.
	Answered(route string, status int, took time.Duration)

	// Streamed reports that a stream was opened (1) or ended (-1).
	Streamed(change int)
}

// Gateway is an http.Handler. Make one with New.
type Gateway struct {
	config    Config
	deps      Deps
	log       *slog.Logger
	mux       *http.ServeMux
	origins   *http.CrossOriginProtection
	bodyMost  int64
	bodies    *budget
	readers   *budget // requests
	responses *budget
	limits    *limiter
	streams   streams
	sendings  *sendings
	waits     waits
	guesses   *Attempts      // unknown tokens
	seldom    rate.Sometimes // logs that the gateway is overloaded

	heartbeat time.Duration
	foreign   func(http.ResponseWriter, *Request, *Problem) // sends problems of paths of no route; nil: as Route.Fail
	exposed   atomic.Pointer[string]                        // the agent because of which it refuses requests, "" or nil: none

	mu     sync.Mutex
	routes []Route

	ending context.Context // done when the gateway drains
	drain  context.CancelCauseFunc
}

// errDraining is the cause with which a drain ends waits and streams.
var errDraining = errors.New("the gateway is shutting down")

// bodyBeside is the room for a route's own fields in a body, besides its message.
const bodyBeside = 16 << 10

// New returns a gateway with all routes of /v1.
func New(c Config, d Deps) *Gateway {
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	g := &Gateway{
		config: c, deps: d, log: d.Logger, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(),
		bodyMost: int64(c.Limits.WithDefaults().MessageBytes + bodyBeside), limits: newLimiter(c.Rate, c.Streams),
		sendings: newSendings(sendingsMost), streams: streams{open: map[*stream]struct{}{}}, heartbeat: heartbeat,
		waits: waits{open: map[*Request]context.CancelCauseFunc{}}, guesses: newAttempts(ofTokens), seldom: rate.Sometimes{Interval: time.Minute},
	}
	g.bodies, g.readers, g.responses = newBodies(g.bodyMost), newBudget(readersMost), newBudget(responsesMost)
	g.ending, g.drain = context.WithCancelCause(context.Background())
	for _, origin := range c.Origins {
		_ = g.origins.AddTrustedOrigin(origin) // checked with the settings
	}
	g.mux.HandleFunc("/", g.noRoute)
	for _, r := range g.own() {
		g.Handle(r)
	}
	return g
}

// own are the routes of this package.
func (g *Gateway) own() []Route {
	return []Route{
		{Pattern: "GET /openapi.yaml", Open: true, Serve: serveDocument},
		{Pattern: "GET /metrics", May: Watch, Serve: g.metrics},
		{Pattern: "GET /scale", May: Watch, Serve: g.getScale},
		{Pattern: "POST /v1/messages", May: Send, Serve: g.postNew},
		{Pattern: "POST /v1/sessions/{s}/messages", May: Send, Serve: g.postMessage},
		{Pattern: "GET /v1/sessions/{s}/messages/{id}", May: Read, Serve: g.getMessage},
		{Pattern: "DELETE /v1/sessions/{s}/messages/{id}", May: Control, Serve: g.deleteMessage},
		{Pattern: "GET /v1/sessions/{s}/events", May: Read, Ticket: true, Serve: g.getEvents},
		{Pattern: "GET /v1/events", May: Read, Serve: g.getAllEvents},
		{Pattern: "POST /v1/tickets", May: Read, Serve: g.postTicket},
		{Pattern: "GET /v1/sessions", May: Read, Serve: g.getSessions},
		{Pattern: "GET /v1/sessions/{s}", May: Read, Reads: true, Serve: g.getSession},
		{Pattern: "DELETE /v1/sessions/{s}", May: Operate, Within: time.Minute, Serve: g.deleteSession},
		{Pattern: "GET /v1/sessions/{s}/transcript", May: Read, Reads: true, Serve: g.getTranscript},
		{Pattern: "POST /v1/sessions/{s}/stop", May: Control, Serve: g.postStop},
		{Pattern: "POST /v1/sessions/{s}/approve", Serve: g.postApprove},
		{Pattern: "POST /v1/sessions/{s}/deny", Serve: g.postDeny},
		{Pattern: "POST /v1/sessions/{s}/answers/{key}", Serve: g.postValue},
		{Pattern: "POST /v1/sessions/{s}/retry", May: Control, Serve: g.postRetry},
		{Pattern: "POST /v1/sessions/{s}/undo", May: Control, Serve: g.postUndo},
		{Pattern: "POST /v1/sessions/{s}/new", May: Control, Serve: g.postRotate},
		{Pattern: "POST /v1/sessions/{s}/resume", May: Control, Within: time.Minute, Serve: g.postResume},
		{Pattern: "POST /v1/sessions/{s}/queue", May: Control, Serve: g.postQueue},
		{Pattern: "POST /v1/sessions/{s}/title", May: Control, Serve: g.postTitle},
		{Pattern: "POST /v1/sessions/{s}/reply-to", May: Control, Serve: g.postReplyTo},
		{Pattern: "GET /v1/dead", May: Operate, Reads: true, Within: time.Minute, Serve: g.getDead},
		{Pattern: "POST /v1/dead/rerun", May: Operate, Within: time.Minute, Serve: g.postDeadRerun},
		{Pattern: "GET /v1/outbox", May: Operate, Reads: true, Within: time.Minute, Serve: g.getOutbox},
		{Pattern: "POST /v1/outbox/redrive", May: Operate, Within: time.Minute, Serve: g.postRedrive},
		{Pattern: "GET /v1/destinations", May: Operate, Serve: g.getDestinations},
		{Pattern: "POST /v1/destinations/{d}/enable", May: Operate, Serve: g.postEnable},
		{Pattern: "POST /v1/destinations/{d}/pause", May: Operate, Serve: g.postPause},
		{Pattern: "POST /v1/destinations/{d}/test", May: Operate, Within: time.Minute, Serve: g.postTest},
	}
}

// WhileServing runs work in the background, with the gateway's log. Its context ends when the gateway
// drains.
func (g *Gateway) WhileServing(work func(context.Context, *slog.Logger)) { go work(g.ending, g.log) }

// metrics serves the process's metrics.
func (g *Gateway) metrics(w http.ResponseWriter, r *Request) error {
	if g.deps.Metrics == nil {
		return Fail(NotFound, "This gateway has no metrics.")
	}
	if !r.Token.SeesAll() {
		return Fail(Forbidden, `The token %s may not read metrics: they count all sessions, and its "sessions" has no "*".`, r.Token.Name)
	}
	g.deps.Metrics.ServeHTTP(w, r.Request)
	return nil
}

package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"turnstile/test/actors"
)

// steps numbers the steps of a gateway's one request: "body", then each request to Redis by its
// script or command, then "reply". Equal names count once. It strikes before or after one of them.
type steps struct {
	at     string // empty: nowhere
	before bool
	strike func()

	mu   sync.Mutex
	on   bool // a request is being served
	seen []string
}

// around plays a step.
func (s *steps) around(name string, play func() error) error {
	s.mu.Lock()
	first := s.on && name != ""
	for _, other := range s.seen {
		first = first && other != name
	}
	if first {
		s.seen = append(s.seen, name)
	}
	s.mu.Unlock()
	due := first && name == s.at
	if due && s.before {
		s.strike()
	}
	err := play()
	if due && !s.before {
		s.strike()
	}
	return err
}

// names are those of all steps that were reached.
func (s *steps) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.seen...)
}

func (s *steps) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *steps) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.around(stepOf(cmd), func() error { return next(ctx, cmd) })
	}
}

func (s *steps) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return s.around(stepOf(cmds...), func() error { return next(ctx, cmds) })
	}
}

// stepOf is the name of a request to Redis: the script among its commands, or else its commands.
func stepOf(cmds ...redis.Cmder) string {
	var names []string
	for _, cmd := range cmds {
		if name := actors.ScriptOf(cmd); name != "" {
			return name
		}
		switch cmd.Name() {
		case "hello", "select", "client", "auth": // of a new connection
		default:
			names = append(names, cmd.Name())
		}
	}
	return strings.Join(names, " ")
}

// serve makes the steps of a request outside Redis: its body was read, its reply is written.
func (s *steps) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.on = true
		s.mu.Unlock()
		r.Body = &stepBody{r.Body, s}
		next.ServeHTTP(&stepWriter{w, s}, r)
	})
}

type stepBody struct {
	io.ReadCloser
	steps *steps
}

func (b *stepBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err == io.EOF {
		_ = b.steps.around("body", func() error { return nil })
	}
	return n, err
}

type stepWriter struct {
	http.ResponseWriter
	steps *steps
}

func (w *stepWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *stepWriter) Write(p []byte) (n int, err error) {
	err = w.steps.around("reply", func() error {
		n, err = w.ResponseWriter.Write(p)
		if err == nil {
			err = http.NewResponseController(w.ResponseWriter).Flush()
		}
		return err
	})
	return n, err
}

// story is a request that is repeated at another gateway after a fault.
type story struct {
	method, path, prefer string
	steps                []string // at least
	worker               bool     // a worker runs all the time
}

var stories = map[string]story{
	"POST":      {"POST", "/v1/sessions/s/messages", "", []string{"body", "accept_fast", "reply"}, false},
	"POST wait": {"POST", "/v1/sessions/s/messages", "wait=60", []string{"body", "accept_fast", "xrevrange", "hmget", "reply"}, true},
	"DELETE":    {"DELETE", "/v1/sessions/s/messages/m", "", []string{"cancel", "reply"}, false},
}

// send sends the story's request to the gateway at url. The error says that it got no response.
func (s story) send(ctx context.Context, url string) (status int, text string, err error) {
	body := `{"text": "tool=look:200ms hello"}`
	if s.method == http.MethodDelete {
		body = ""
	}
	request, err := http.NewRequestWithContext(ctx, s.method, url+s.path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", "m")
	}
	if s.prefer != "" {
		request.Header.Set("Prefer", s.prefer)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("read the response: %w", err)
	}
	return response.StatusCode, string(data), nil
}

// Package modelserver plays an endpoint of Chat Completions, and of the Messages API, for tests: a real HTTP server on loopback
// that responds by the test's script, and records the requests.
//
//	model := modelserver.New(t,
//	modelserver.Stream(modelserver.Text("let me see"), modelserver.Call("c1", "weather", `{"city":`, `"Rome"}`)),
//	modelserver.Stream(modelserver.Text("It ", "is ", "warm."), modelserver.Use(40, 5)),
//	)
//	... a client of model.URL() ...
//	model.Requests()[1].Messages
//
// Each request takes the script's next Response. At the script's end the function of Otherwise
// decides. Without one the request is refused with a 400 and the test fails.
package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// TB has the methods of *testing.T that New needs.
type TB interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// Server is the endpoint. Its methods may be called from any goroutine.
type Server struct {
	t      TB // nil: a surplus request fails no test
	server *httptest.Server
	done   chan struct{} // closed by Close: all hangs end

	mu        sync.Mutex
	script    []Response
	otherwise func(Request) Response
	models    []string
	requests  []Request
	came      chan struct{} // closed and replaced at each request
}

// New starts a server with a script. It is closed when t ends.
func New(t TB, script ...Response) *Server {
	t.Helper()
	s := start(t, script)
	t.Cleanup(s.Close)
	return s
}

// Start is New for a program that is not a test. Close it.
func Start(script ...Response) *Server { return start(nil, script) }

func start(t TB, script []Response) *Server {
	s := &Server{t: t, script: script, done: make(chan struct{}), came: make(chan struct{}), models: []string{"test-model"}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	mux.HandleFunc("POST /v1/messages", s.message)
	mux.HandleFunc("GET /v1/models", s.list)
	s.server = httptest.NewServer(mux)
	return s
}

// URL is the base URL for clients: http://127.0.0.1:PORT/v1.
func (s *Server) URL() string { return s.server.URL + "/v1" }

// Close ends all hangs and waits, and then the server. Calling it again does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.done:
		s.mu.Unlock()
		return
	default:
	}
	close(s.done)
	s.mu.Unlock()
	s.server.Close()
}

// Script adds responses to the end of the script.
func (s *Server) Script(responses ...Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, responses...)
}

// Otherwise sets the response to requests after the script's end.
func (s *Server) Otherwise(respond func(Request) Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.otherwise = respond
}

// Models sets the IDs that GET /v1/models lists. The default is one, test-model.
func (s *Server) Models(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = ids
}

// Requests are the requests so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Await waits until there were n requests, and returns the n-th. It waits as long as the test may
// run, and returns false if the server was closed.
func (s *Server) Await(n int) (Request, bool) {
	for {
		s.mu.Lock()
		came := s.came
		if len(s.requests) >= n {
			r := s.requests[n-1]
			s.mu.Unlock()
			return r, true
		}
		s.mu.Unlock()
		select {
		case <-came:
		case <-s.done:
			return Request{}, false
		}
	}
}

// next records a request and returns its response.
func (s *Server) next(r Request) Response {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	close(s.came)
	s.came = make(chan struct{})
	n, otherwise := len(s.requests), s.otherwise
	if len(s.script) > 0 {
		answer := s.script[0]
		s.script = s.script[1:]
		s.mu.Unlock()
		return answer
	}
	s.mu.Unlock()
	if otherwise != nil {
		return otherwise(r)
	}
	if s.t != nil {
		s.t.Errorf("modelserver: request %d has no reply in the script", n)
	}
	return Error(http.StatusBadRequest, "not_scripted", fmt.Sprintf("modelserver: request %d has no reply in the script", n))
}

func (s *Server) complete(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return // the client is gone
	}
	r := Request{Header: hr.Header.Clone(), Body: body}
	if err := json.Unmarshal(body, &r); err != nil {
		Error(http.StatusBadRequest, "invalid_json", err.Error()).write(w, hr, r, s.done)
		return
	}
	s.next(r).write(w, hr, r, s.done)
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	ids := s.models
	s.mu.Unlock()
	data := make([]object, 0, len(ids))
	for _, id := range ids {
		data = append(data, object{"id": id, "object": "model", "created": 0, "owned_by": "modelserver"})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(object{"object": "list", "data": data}))
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// models plays the three vendors' models on loopback for the real programs. The last part of a
// request decides the response:
//
//	a tool's result             the text "The tool has spoken."
//	a text with "use the tool"  a call of a tool
//	a text with "be denied"     a call of a tool that writes
//	a text with "be refused"    an error of HTTP 400
//	a text with "never end"     nothing, until the program hangs up
//	a text with "stop halfway"  half a text, and then nothing until the program hangs up
//	a text with "last words"    a text, in a response that ends when the program hangs up
//	a text that begins with call a call of that tool of an MCP server, with the rest as its text
//	a text with "slow tool"     a call of a tool that does not end
//	a text with "then silence"  a call of a tool. After its result nothing, until the program hangs up
//	a text with "die twice"     the first request to go on gets nothing, until the program hangs up
//	a text that begins a turn again or goes on with it: "I went on."
//	a text with "think first"   a thought, then the text
//	a very long text            "Heard N bytes."
//	any other text              "Heard N: " and the N texts of the user so far
type models struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	ids    atomic.Int64
	stuck  chan struct{} // closed when a call, or the tool of a response, does not end
	once   sync.Once
	closed chan struct{}
}

// onStuck calls then when a call hangs.
func (m *models) onStuck(then func()) {
	go func() {
		select {
		case <-m.stuck:
			then()
		case <-m.closed:
		}
	}()
}

// call is one request.
type call struct {
	model string
	texts []string // the user's, without the programs' additions
	tool  bool     // the last part is a tool's result
	tools []string // the names of the tools on offer
	body  string
}

func startModels(t *testing.T) *models {
	t.Helper()
	m := &models{stuck: make(chan struct{}), closed: make(chan struct{})}
	m.Server = httptest.NewUnstartedServer(m.handler())
	m.Config.ErrorLog = log.New(io.Discard, "", 0)
	m.Start()
	t.Cleanup(func() {
		close(m.closed)
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

func (m *models) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", vendor(m, anthropicCall, anthropicStream))
	mux.HandleFunc("POST /v1/responses", vendor(m, responsesCall, responsesStream))
	mux.HandleFunc("POST /v1beta/models/", vendor(m, geminiCall, geminiStream))
	return mux
}

func (m *models) seen() []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]call(nil), m.calls...)
}

// response is a model's response to one call.
type response struct {
	thought, text string
	tool          bool
	writes        bool   // the tool writes
	slow          bool   // the tool does not end
	sums          bool   // the tool's output is not in its input
	call, with    string // a server's tool, and its text
	half, open    bool   // the response ends in the middle, or does not end
}

// shell is the script for a tool that runs commands.
func (a response) shell() string {
	switch {
	case a.writes:
		return "touch written-by-the-tool"
	case a.slow:
		return "echo ran >> effects; sleep 1000"
	case a.sums:
		return "echo from-$((6*7))"
	}
	return "echo from-the-tool"
}

// theirs is the name of a server's tool, and the arguments.
func (a response) theirs(c call) (name string, arguments object) {
	at := slices.IndexFunc(c.tools, func(name string) bool { return strings.HasSuffix(name, "_"+a.call) })
	if at < 0 {
		return a.call, object{"text": a.with} // the program says that there is none
	}
	return c.tools[at], object{"text": a.with}
}

func vendor(m *models, parse func(*http.Request) (call, error), stream func(*sse, call, response)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c, err := parse(r)
		c.body = string(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.mu.Lock()
		m.calls = append(m.calls, c)
		m.mu.Unlock()
		last := ""
		if len(c.texts) > 0 {
			last = c.texts[len(c.texts)-1]
		}
		silent := func() {
			m.once.Do(func() { close(m.stuck) })
			<-r.Context().Done()
		}
		var a response
		switch {
		case strings.Contains(last, "No new message follows") && strings.Contains(fmt.Sprint(c.texts), "die twice") && strings.Count(fmt.Sprint(c.texts), "No new message follows") == 1:
			silent()
			return
		case strings.Contains(last, "[System note:") || strings.HasPrefix(last, "[No new message"):
			a.text = "I went on."
		case c.tool && strings.Contains(last, "then silence"):
			silent()
			return
		case c.tool:
			a.text = "The tool has spoken."
		case strings.Contains(last, "be refused"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","code":400,"status":"INVALID_ARGUMENT","message":"the scripted model refuses"}}`)
			return
		case strings.Contains(last, "never end"):
			silent()
			return
		case strings.Contains(last, "stop halfway"):
			a = response{text: "Half of a text.", half: true}
		case strings.Contains(last, "last words"):
			a = response{text: "These were all.", open: true}
		case strings.Contains(last, "slow tool"):
			a = response{text: "I use it.", tool: true, slow: true}
		case strings.Contains(last, "then silence"):
			a = response{text: "I use it.", tool: true, sums: true}
		case strings.HasPrefix(last, "call "):
			a = response{text: "I use it.", tool: true}
			a.call, a.with, _ = strings.Cut(strings.TrimPrefix(last, "call "), " ")
		case strings.Contains(last, "use the tool"):
			a = response{text: "I use it.", tool: true}
		case strings.Contains(last, "be denied"):
			a = response{text: "I write.", tool: true, writes: true}
		default:
			if strings.Contains(last, "think first") {
				a.thought = "Let me see."
			}
			if a.text = fmt.Sprintf("Heard %d: %s", len(c.texts), strings.Join(c.texts, " | ")); len(last) > 1<<16 {
				a.text = fmt.Sprintf("Heard %d bytes.", len(last))
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		s := &sse{w: w, id: m.ids.Add(1)}
		if a.half {
			s.half, s.silent = inHalves(a.text)[0], silent
		}
		stream(s, c, a)
		if a.open {
			silent()
		}
	}
}

// inHalves splits a text, so that the program must join two pieces.
func inHalves(text string) []string {
	half := len(text) / 2
	return []string{text[:half], text[half:]}
}

// sse writes server-sent events.
type sse struct {
	w  http.ResponseWriter
	id int64 // of this response

	half   string // after this text
	silent func() // this is called
}

func (s *sse) name(prefix string) string { return fmt.Sprintf("%s_%d", prefix, s.id) }

type object = map[string]any

func (s *sse) send(name string, data object) {
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
		data["type"] = name
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", text)
	s.w.(http.Flusher).Flush()
	if s.silent != nil && name != "response.output_item.added" && strings.Contains(string(text), s.half) {
		s.silent()
		panic(http.ErrAbortHandler)
	}
}

// users are the texts that the user wrote, without those that a program adds in the user's name.
func users(texts []string) (own []string) {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" && !strings.HasPrefix(text, "<") && !strings.HasPrefix(text, "# AGENTS.md") {
			own = append(own, text)
		}
	}
	return own
}

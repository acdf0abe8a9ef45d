package sdks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	expect.AtOnce(2)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// programs are a real gateway and workers on the test's Redis, and the client libraries.
type programs struct {
	*testing.T
	redis *redistest.Server
	addr  string // of the gateway
}

// newPrograms skips the test if the client libraries are not installed. For `make sdks` they are.
func newPrograms(t *testing.T) *programs {
	t.Helper()
	t.Parallel()
	_, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat("testdata/node_modules/.package-lock.json")
	}
	if err != nil {
		if os.Getenv("TURNSTILE_SDKS") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT CHECKED: client libraries of npm, which `make sdks` installs: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer listener.Close()
	return &programs{t, redistest.StartServer(t), listener.Addr().String()}
}

func (p *programs) gateway() *program.Process {
	p.Helper()
	gateway := program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/gateway"), []string{
		"REDIS_URL=" + p.redis.URL(), "TURNSTILE_GATEWAY_ADDR=" + p.addr,
	}))
	expect.Soon(p, "the gateway listens", func() bool {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return gateway
}

// worker starts a worker, and waits until gateways can see one.
func (p *programs) worker(agent ...string) *program.Process {
	p.Helper()
	worker := program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/worker"), append([]string{
		"REDIS_URL=" + p.redis.URL(), "TURNSTILE_AGENT=echo", "TURNSTILE_HTTP_ADDR=", "TURNSTILE_SENTINEL_TTL=1s", "TURNSTILE_CONCURRENCY=20",
	}, agent...)))
	expect.Soon(p, "a worker lives", func() bool {
		n, err := p.redis.Client().ZCard(p.Context(), "asynq:servers").Result()
		return err == nil && n > 0
	})
	return worker
}

// node runs a script of testdata.
func (p *programs) node(script, text string, args ...string) *program.Process {
	p.Helper()
	path, err := exec.LookPath("node")
	expect.OK(p, err)
	cmd := program.Command(p, path, []string{"BASE=http://" + p.addr, "TEXT=" + text}, append([]string{script}, args...)...)
	cmd.Dir = "testdata"
	return program.Start(p, cmd)
}

// streaming are the clients that read a stream, and whole those that wait for its end.
var (
	streaming = []string{
		"openai-responses", "openai-responses-helper", "openai-chat", "openai-chat-helper", "ai-responses", "ai-chat",
		"ai-compatible", "langchain-responses", "langchain-chat", "agents",
	}
	whole = []string{"openai-chat-whole", "ai-responses-whole", "ai-chat-whole", "ai-compatible-whole", "langchain-responses-whole", "langchain-chat-whole", "agents-whole"}
)

// line is a line of clients.mjs about a client.
type line struct {
	Client string `json:"client"`
	Began  bool   `json:"began"`
	Text   string `json:"text"`
	Error  string `json:"error"`
	Last   int64  `json:"last"` // number of the last event
}

// lines are those that it has written.
func (p *programs) lines(clients *program.Process) (all []line) {
	for text := range strings.Lines(clients.Output.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.Client != "" {
			all = append(all, l)
		}
	}
	return all
}

// allBegan waits until each client has text.
func (p *programs) allBegan(clients *program.Process, n int) {
	p.Helper()
	expect.Soon(p, "every client has text", func() bool {
		began := 0
		for _, l := range p.lines(clients) {
			if l.Began {
				began++
			}
		}
		return began == n
	})
}

// results waits for the clients' ends.
func (p *programs) results(clients *program.Process, names []string) map[string]line {
	p.Helper()
	expect.Equal(p, "exit code", clients.ExitCode(), 0)
	results := map[string]line{}
	for _, l := range p.lines(clients) {
		if !l.Began {
			results[l.Client] = l
		}
	}
	for _, name := range names {
		if _, ok := results[name]; !ok {
			p.Errorf("%s says nothing", name)
		}
	}
	return results
}

func TestReply(t *testing.T) {
	p := newPrograms(t)
	p.gateway()
	p.worker()
	names := append(append([]string{}, streaming...), whole...)
	for name, l := range p.results(p.node("clients.mjs", "stream=3 tool=look one two three", names...), names) {
		if l.Text != "echo: one two three" || l.Error != "" {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// A gateway is stopped in mid-stream. No client takes a part for the whole reply.
func TestStoppedGateway(t *testing.T) {
	p := newPrograms(t)
	gateway := p.gateway()
	p.worker()
	clients := p.node("clients.mjs", "stream=2 tick=1h half a reply", streaming...)
	p.allBegan(clients, len(streaming))
	gateway.Signal(syscall.SIGTERM)
	for name, l := range p.results(clients, streaming) {
		if l.Error == "" {
			t.Errorf("%s takes %q for the reply", name, l.Text)
		}
	}
}

// A gateway is stopped while messages wait for a worker, and another one takes its place. No client sends its
// message again, which is stored and would run twice.
func TestStoppedGatewayBeforeTheText(t *testing.T) {
	p := newPrograms(t)
	gateway := p.gateway()
	clients := p.node("clients.mjs", "x", streaming...)
	expect.Soon(t, "every client has a stream", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr+"/metrics", http.NoBody)
		expect.OK(t, err)
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		expect.OK(t, err)
		defer response.Body.Close()
		metrics, err := io.ReadAll(response.Body)
		expect.OK(t, err)
		return strings.Contains(string(metrics), fmt.Sprintf("\nturnstile_gateway_streams %d\n", len(streaming)))
	})
	gateway.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", gateway.ExitCode(), 0)
	p.gateway()
	p.worker()
	results, redis := p.results(clients, streaming), p.redis.Client()
	for name, l := range results {
		if l.Error == "" {
			t.Errorf("%s has sent its message again: %+v", name, l)
		}
		ended := "asynq:{session:" + name + "}:completed"
		expect.Soon(t, name+"'s message has run", func() bool { return redis.ZCard(t.Context(), ended).Val() > 0 })
		expect.Equal(t, "messages of "+name, redis.ZCard(t.Context(), ended).Val(), 1)
	}
}

// A worker is killed when half of a reply was streamed, and the turn is run again. No client has a text
// that joins both.
func TestKilledWorker(t *testing.T) {
	p := newPrograms(t)
	p.gateway()
	worker := p.worker()
	clients := p.node("clients.mjs", "stream=2 tick=1h half", streaming...)
	p.allBegan(clients, len(streaming))
	worker.Kill()
	p.worker()
	for name, l := range p.results(clients, streaming) {
		if !strings.Contains(l.Error, "run again") || l.Text != "echo:" {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// A client lost its stream before the worker died, and reopens it after its text. The library gets an
// error before it joins the new text to that. After its last event it gets the new text alone.
func TestKilledWorkerBetweenStreams(t *testing.T) {
	p := newPrograms(t)
	p.gateway()
	worker := p.worker()
	const name = "openai-retrieve"
	resume := func(id, after string) line {
		t.Helper()
		return p.results(p.node("lost.mjs", "", id, after), []string{name})[name]
	}
	id, after := p.half("stream=5 tick=300ms one two three four")
	worker.Kill()
	p.worker()
	told := resume(id, after)
	if !strings.Contains(told.Error, "turn_restarted") || told.Text != "" {
		t.Errorf("%+v", told)
	}
	if l := resume(id, strconv.FormatInt(told.Last, 10)); l.Error != "" || l.Text != "echo: one two three four" {
		t.Errorf("behind the last event: %+v", l)
	}
}

// half streams a response up to its first text, and returns its ID and the number of that.
func (p *programs) half(text string) (id, number string) {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodPost, "http://"+p.addr+"/v1/responses", strings.NewReader(`{"stream": true, "input": "`+text+`"}`))
	expect.OK(p, err)
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	expect.OK(p, err)
	defer response.Body.Close()
	for in := bufio.NewScanner(response.Body); in.Scan(); {
		var e struct {
			Type     string
			Sequence int64 `json:"sequence_number"`
			Response struct{ ID string }
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			expect.OK(p, json.Unmarshal([]byte(data), &e))
		}
		if e.Response.ID != "" {
			id = e.Response.ID
		}
		if e.Type == "response.output_text.delta" {
			return id, strconv.FormatInt(e.Sequence, 10)
		}
	}
	p.Fatal("the stream has no text")
	return "", ""
}

// A turn that failed for good is an error for each client, and no client repeats its message.
func TestFailedTurn(t *testing.T) {
	p := newPrograms(t)
	p.gateway()
	p.worker()
	names := append(append([]string{}, streaming...), whole...)
	results := p.results(p.node("clients.mjs", "fail=final x", names...), names)
	redis := p.redis.Client()
	for name, l := range results {
		if l.Error == "" {
			t.Errorf("%s takes %q for the reply", name, l.Text)
		}
		if name != "agents-whole" && !strings.Contains(l.Error, "told to fail") { // that one has another text
			t.Errorf("%s does not say why: %q", name, l.Error)
		}
		failed, err := redis.ZCard(t.Context(), "asynq:{session:"+name+"}:archived").Result()
		expect.OK(t, err)
		expect.Equal(t, "failed messages of "+name, failed, 1)
	}
}

// A gateway is stopped, and another one takes its place. Both libraries for server-sent events
// continue there by themselves, and see each event once.
func TestEventsGoOn(t *testing.T) {
	p := newPrograms(t)
	gateway := p.gateway()
	p.worker()
	say := func(text string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/sessions/s/messages", strings.NewReader(`{"text": "`+text+`"}`))
		expect.OK(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		expect.OK(t, err)
		expect.OK(t, response.Body.Close())
		expect.Equal(t, "status", response.StatusCode, http.StatusAccepted)
	}
	libraries := p.node("events.mjs", "", "s")
	seen := func(reply string) {
		t.Helper()
		expect.Soon(t, reply, func() bool {
			out := libraries.Output.String()
			return strings.Contains(out, "\nEventSource "+reply) && strings.Contains(out, "\nfetch-event-source "+reply)
		})
	}
	say("one")
	seen("echo: one")
	gateway.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", gateway.ExitCode(), 0)
	p.gateway()
	say("two")
	seen("echo: two")
	for _, library := range []string{"EventSource", "fetch-event-source"} {
		expect.Equal(t, library, strings.Count(libraries.Output.String(), library+" echo: one"), 1)
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/browser"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// rig is the chat, its gateway and a worker.
type rig struct {
	*testing.T
	redis   redis.UniversalClient
	page    *httptest.Server
	addr    string // of the gateway
	tokens  *gateway.Tokens
	tickets atomic.Int64 // how many the page has fetched

	gateway *gateway.Gateway
	server  *httptest.Server
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, redis: redistest.New(t)}
	r.tokens = gateway.OneToken("chat", "chat-secret")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	r.addr = l.Addr().String()
	var served http.Handler
	r.page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/chat/tickets" {
			r.tickets.Add(1)
		}
		served.ServeHTTP(w, q)
	}))
	t.Cleanup(r.page.Close)
	served = newChat("http://"+r.addr, "chat-secret")
	r.serve(l)
	t.Cleanup(r.stop)
	return r
}

// serve starts a gateway.
func (r *rig) serve(l net.Listener) {
	r.Helper()
	r.gateway = gateway.New(gateway.Config{Tokens: r.tokens, Origins: []string{r.page.URL}}, gateway.Deps{
		Client: turnstile.NewClient(r.redis), Admin: admin.NewClient(r.redis), Store: store.New(r.redis), Logger: slog.New(slog.DiscardHandler),
	})
	r.server = httptest.NewUnstartedServer(r.gateway)
	r.server.Listener.Close()
	r.server.Listener = l
	r.server.Start()
}

// stop ends the gateway.
func (r *rig) stop() {
	_ = r.gateway.Stop(context.Background())
	r.server.CloseClientConnections()
	r.server.Close()
}

// restart ends the gateway, and starts another one on its address.
func (r *rig) restart() {
	r.Helper()
	r.stop()
	l, err := net.Listen("tcp", r.addr)
	expect.OK(r, err)
	r.serve(l)
}

func (r *rig) work() { r.runs(echo.New()) }

// runs starts a worker with an agent.
func (r *rig) runs(a agent.Agent) {
	r.Helper()
	r.worker(a, worker.Config{})
}

func (r *rig) worker(a agent.Agent, c worker.Config) *worker.Worker {
	r.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	w, err := worker.New(r.redis, a, c)
	expect.OK(r, err)
	expect.OK(r, w.Start(context.Background()))
	r.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	return w
}

// story is a message and its reply, which arrives in pieces for about 6 s.
func story() (message, reply string) {
	var words []string
	for i := range 60 {
		words = append(words, fmt.Sprintf("w%d", i))
	}
	return "stream=60 tick=100ms " + strings.Join(words, " "), "echo: " + strings.Join(words, " ")
}

// bubbles are the page's texts of a kind.
func bubbles(p *browser.Page, kind string) string {
	return p.Eval(`[...document.querySelectorAll("#log > .` + kind + `")].map((e) => e.textContent).join("|")`)
}

func TestChat(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	r.work()
	p.Goto(r.page.URL)
	p.Type("#text", "hello <b>you</b>\r")
	p.AwaitText("#log", "echo: hello <b>you</b>")
	expect.Equal(t, "tickets", r.tickets.Load(), 1)

	// A reload in the middle of a reply.
	message, reply := story()
	p.Type("#text", message+"\r")
	p.AwaitText("#log", "w7")
	p.Reload()
	p.AwaitText("#log", reply)
	expect.Equal(t, "replies", bubbles(p, "assistant"), "echo: hello <b>you</b>|"+reply)
	expect.Equal(t, "messages", bubbles(p, "user"), "hello <b>you</b>|"+message)

	// A gateway that is restarted in the middle of a reply: the ticket is spent, so the page fetches
	// another one.
	before := r.tickets.Load()
	p.Type("#text", message+"\r")
	p.Await(`document.querySelectorAll("#log > .assistant")[2]?.textContent.includes("w7")`)
	r.restart()
	p.Await(`document.querySelectorAll("#log > .assistant")[2]?.textContent.endsWith("w59")`)
	expect.Equal(t, "replies", bubbles(p, "assistant"), "echo: hello <b>you</b>|"+reply+"|"+reply)
	if r.tickets.Load() == before {
		t.Error("the page has opened its stream again with a spent ticket")
	}

	// A message that is sent while the gateway is down.
	r.stop()
	p.Type("#text", "later\r")
	l, err := net.Listen("tcp", r.addr)
	expect.OK(t, err)
	r.serve(l)
	p.AwaitText("#log", "echo: later")

	p.Type("#text", "stream=2 tick=1h endless\r")
	p.Await(`document.querySelectorAll("#log > .assistant").length === 5`)
	p.Click("#stop")
	p.AwaitText("#log .note", "stopped")
	expect.Equal(t, "elements of texts", p.Eval(`document.querySelectorAll("#log b").length`), "0")
}

// A reply in Markdown is shown as such when it is whole, without what could harm, also after a reload. A click shows the
// text itself.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	r.work()
	p.Goto(r.page.URL)
	const text = "**bold** [bad](javascript:top.bad=1) [good](https://example.com/x) <img src='x' onerror='top.bad=1'> ![i](https://example.com/i)"
	p.Type("#text", text+"\r")
	for _, when := range []string{"new", "after a reload"} {
		p.AwaitText("#log > .rich", "echo: bold")
		const want = `<p>echo: <strong>bold</strong> bad <a href="https://example.com/x" rel="nofollow noopener" target="_blank">good</a>  </p>|bold|undefined`
		expect.Equal(t, when, p.Eval(`document.querySelector(".rich > div").innerHTML.trim() + "|" + document.querySelector(".rich strong").textContent + "|" + top.bad`), want)
		p.Eval(`document.querySelector(".rich > button").click()`)
		expect.Equal(t, "text", p.Eval(`document.querySelector("#log > .assistant > div").textContent`), "echo: "+text)
		p.Goto(r.page.URL)
	}
}

// taciturn says nothing after its tool, so its reply is empty.
type taciturn struct{}

func (taciturn) Run(_ context.Context, turn *agent.Turn) (agent.Result, error) {
	turn.Emit(agent.Event{Type: session.EventText, Text: "Looking at it"})
	turn.Emit(agent.Event{Type: session.EventToolStart, Name: "look", CallID: "1"})
	turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "1"})
	return agent.Result{}, nil
}

// Streamed text stays when the turn ends without a reply. A message that cannot be sent is not
// retried endlessly, and the page says why.
func TestNoReply(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	r.runs(taciturn{})
	p.Goto(r.page.URL)
	p.Type("#text", "look\r")
	p.Await(`turns.size === 0 && document.querySelector("#log > .assistant")`)
	expect.Equal(t, "replies", bubbles(p, "assistant"), "Looking at it")
	p.Eval(`document.querySelector("#text").value = "x".repeat(70000)`)
	p.Eval(`document.querySelector("form").requestSubmit()`)
	p.AwaitText("#log .note", "This was not sent: the message is longer than 64 KiB")
	r.stop()
	p.Click("#stop")
	p.Await(`document.querySelector("#log").lastChild.textContent === "This may not have been stopped."`)
}

// After a reload the page has what the transcript does not have, in its place: a message that failed, one that was stopped,
// how a question was decided, and a message that waits for its first turn. It shows that the agent works, and where to
// write also on a phone.
func TestReloadKeepsAll(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	p.Size(390, 700)
	w := r.worker(echo.New(), worker.Config{})
	p.Goto(r.page.URL)
	send := func(text string) { p.Type("#text", text+"\r") }
	send("fail=final first")
	p.AwaitText("#log .note", "failed")
	send("ask=rm second")
	p.AwaitText("#log .question", "rm")
	expect.Equal(t, "works while it asks", p.Eval(`document.querySelector("#typing").hidden`), "true")
	p.Eval(`document.querySelector(".question button").click()`)
	p.AwaitText("#log", "echo: second")
	send("tool=look:1h third")
	p.Await(`!document.querySelector("#typing").hidden`)
	p.Click("#stop")
	p.Await(`document.querySelectorAll("#log .note").length === 2 && document.querySelector("#typing").hidden`)
	send("fourth")
	p.AwaitText("#log", "echo: fourth")
	expect.OK(t, w.Stop(t.Context()))
	send("fifth")
	p.Await(`turns.size === 0`)
	const shown = `[...document.querySelectorAll("#log > p")].map((e) => e.className + " " + e.textContent.split(/[:\n]/)[0]).join("|")`
	const want = "user fail=final first|note failed|user ask=rm second|question May I do this? rm|assistant echo|user tool=look|note stopped|user fourth|assistant echo|user fifth"
	p.Reload()
	p.Await(shown + `.split("|").length === 10`)
	for _, text := range []string{"fifth", "first", "third"} {
		p.AwaitText("#log", text)
	}
	expect.Equal(t, "the page", p.Eval(shown), want)
	p.AwaitText("#log .question", "Approved.")
	expect.Equal(t, "the form is in view", p.Eval(`document.querySelector("form").getBoundingClientRect().bottom <= innerHeight`), "true")
	p.Shoot(filepath.Join(cmp.Or(os.Getenv("TURNSTILE_PICTURES"), t.TempDir()), "web-chat-phone.png"))
}

// A worker is killed in the middle of a reply, and another one begins it again. The page shows one
// reply, and a reload the same.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	worker := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=echo", "TURNSTILE_SENTINEL_TTL=1s",
	}))
	p.Goto(r.page.URL)
	message, reply := story()
	p.Type("#text", message+"\r")
	p.AwaitText("#log", "w7")
	worker.Kill()
	r.work()
	p.Await(`[...document.querySelectorAll("#log > .assistant")].some((e) => e.textContent.endsWith("w59"))`)
	expect.Equal(t, "replies", bubbles(p, "assistant"), reply)
	expect.Equal(t, "messages", bubbles(p, "user"), message)
	p.Reload()
	p.AwaitText("#log", "w59")
	expect.Equal(t, "replies after a reload", bubbles(p, "assistant"), reply)
}

// Two tabs of a visitor show the same: messages that one of them sends, and questions, which either
// decides.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	r.work()
	p.Goto(r.page.URL)
	p.Eval(`document.body.append(Object.assign(document.createElement("iframe"), {id: "other", src: "/"}))`)
	const other = `document.querySelector("#other").contentDocument`
	both := func(texts string) {
		t.Helper()
		for _, d := range []string{"document", other} {
			p.Await(`[...` + d + `.querySelectorAll("#log > *")].map((e) => e.textContent).join("|") === ` + strconv.Quote(texts))
		}
	}
	p.Await(other + `.querySelector("#text")`)
	p.Type("#text", "here\r")
	both("here|echo: here")
	p.Eval(other + `.querySelector("#text").value = "there"`)
	p.Eval(other + `.querySelector("form").requestSubmit()`)
	both("here|echo: here|there|echo: there")

	p.Type("#text", "ask=rm go on\r")
	asked := "here|echo: here|there|echo: there|ask=rm go on|May I do this? rm"
	p.Await(other + `.querySelector("#log > .question button")`)
	p.Reload()
	p.Eval(`document.body.append(Object.assign(document.createElement("iframe"), {id: "other", src: "/"}))`)
	p.Await(other + `?.querySelector("#log > .question button")`)
	p.Click("#log > .question button")
	both(asked + "\nApproved.|echo: go on")
	p.Type("#text", "ask=rm no\r")
	p.Await(other + `.querySelectorAll("#log > .question button")[1]`)
	p.Eval(other + `.querySelectorAll("#log > .question button")[1].click()`)
	p.Await(`document.querySelector("#log").textContent.includes("Denied.")`)
}

// Each visitor has a separate session, and other sites' pages cannot use it.
func TestVisitors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	visit := func(method, path, cookie string, headers ...string) (*http.Response, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, r.page.URL+path, strings.NewReader(`{"text": "x"}`))
		expect.OK(t, err)
		request.Header.Set("Cookie", cookie)
		for i := 0; i+1 < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		expect.OK(t, err)
		defer response.Body.Close()
		cookies := response.Cookies()
		if len(cookies) == 0 {
			return response, ""
		}
		return response, cookies[0].Name + "=" + cookies[0].Value
	}
	_, one := visit(http.MethodGet, "/", "")
	_, two := visit(http.MethodGet, "/", "")
	if one == two || one == "" {
		t.Errorf("cookies %q and %q", one, two)
	}
	for _, c := range []struct {
		method, path, cookie string
		headers              []string
		want                 int
	}{
		{http.MethodPost, "/chat/messages", "", nil, 403},
		{http.MethodPost, "/chat/messages", visitorCookie + "=../dead", nil, 403},
		{http.MethodPost, "/chat/tickets", "", nil, 403},
		{http.MethodPost, "/chat/messages", one, []string{"Origin", "https://evil.example"}, 403},
		{http.MethodPost, "/chat/messages", one, nil, 202},
		{http.MethodGet, "/chat", one, nil, 200},
		{http.MethodGet, "/chat", two, nil, 404},
	} {
		response, _ := visit(c.method, c.path, c.cookie, c.headers...)
		expect.Equal(t, c.method+" "+c.path+" "+c.cookie, response.StatusCode, c.want)
	}
}

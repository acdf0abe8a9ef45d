package board_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/browser"
	"turnstile/test/expect"
)

// A day at the board, in a real browser: log in, find a session, see a reply as it comes, stop,
// approve, forget, log out.
func TestBrowser(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t, boss)
	r.worker()
	r.say("web:1", "hello")
	r.say("web:2", "another")
	p.Goto(r.url + "/board/")
	p.AwaitText("h1", "Log in")
	p.Type("#token", "boss\r")
	p.AwaitText("tbody", "web:2")
	expect.Equal(t, "the cookie is no script's", p.Eval("document.cookie"), "")
	p.Press("jjk") // the newest is the first row
	p.Await(`document.querySelector("tr.selected").dataset.row === "web:2"`)
	p.Press("j\r")
	p.AwaitText("h1", "web:1")
	p.AwaitText("#transcript", "echo: hello")

	// What the turn does appears without a reload. TestBrowserRendersARunningReply has a text that grows.
	p.Eval("window.stays = true")
	p.Press("/")
	p.Await(`document.activeElement.id === "message"`)
	r.send("web:1", "tool=look ask=first ask=second nine ten")
	p.AwaitText("#reply", "look")
	for i, tool := range []string{"first", "second"} {
		p.AwaitText(".question", tool)
		_, err := r.client.Session("web:1").Decide(t.Context(), strconv.Itoa(i+1), session.Allow)
		expect.OK(t, err)
	}
	p.AwaitText("#transcript", "nine ten")
	p.Await(`!document.querySelector("#reply")`)
	expect.Equal(t, "the page stays", p.Eval("window.stays"), "true")
	expect.Equal(t, "each entry is there once", p.Eval(`document.querySelectorAll(".entry.assistant").length`), "2")

	// Send and stop.
	p.Type("#message", "stream=2 tick=1h a long story")
	p.Click("#send-button")
	p.AwaitText(".done", "was sent")
	p.AwaitText("#reply", "echo")
	r.send("web:1", "me too")
	p.AwaitText("#line", "me too")
	p.Click("#stop")
	p.AwaitText(".done", "The turn ends")
	p.AwaitText("#dead", "stopped")
	p.Await(`!document.querySelector("#reply")`)

	// Approve.
	id := r.send("web:1", "ask=shell allowed")
	p.AwaitText(".question", "shell")
	p.Await(`/^in [0-4]:\d\d min$/.test(document.querySelector("time[data-left]").textContent)`)
	first := p.Text("time[data-left]")
	p.Await(`document.querySelector("time[data-left]").textContent !== ` + strconv.Quote(first)) // it counts
	p.Click("#approve")
	p.AwaitText("#transcript", "echo: allowed")
	o, err := r.client.Session("web:1").Wait(t.Context(), id)
	expect.OK(t, err)
	expect.Equal(t, "status", o.Status, session.StatusDone)

	// Forget asks first.
	p.Click("#forget")
	p.AwaitText("h1", "Forget this session?")
	p.Click("#forget-confirm")
	p.AwaitText("tbody", "web:2")
	expect.Equal(t, "forgotten", p.Has(`[data-row="web:1"]`), false)

	// The list refreshes without a reload.
	p.Eval("window.stays = true")
	r.send("web:3", "ask=shell x")
	p.Await(`document.querySelector('[data-row="web:3"] .state')?.textContent === "asking"`)
	expect.Equal(t, "the page stays", p.Eval("window.stays"), "true")
	p.Press("?")
	p.Await(`document.getElementById("help").open`)
	p.Click("#help button")
	p.Click("header form button")
	p.AwaitText("h1", "Log in")
}

// A row keeps its place when its session becomes the newest: the pointer may be over it.
func TestRowsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	r.worker()
	r.say("web:1", "hello")
	r.say("web:2", "another")
	p.Goto(r.url + "/board/")
	p.AwaitText("tbody", "web:1")
	r.say("web:1", "fail=final x")
	r.say("web:3", "new")
	p.Await(`document.querySelector('[data-row="web:1"] .bad') && document.querySelector('[data-row="web:3"]')`)
	expect.Equal(t, "the rows", p.Eval(`[...document.querySelectorAll("tr[data-row]")].map((r) => r.dataset.row).join(" ")`), "web:3 web:2 web:1")
}

func TestBrowserSeesHostileTextsAsData(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	r.worker()
	r.say("web:1", hostile)
	expect.OK(t, r.client.Session("web:1").SetTitle(t.Context(), hostile))
	r.say("web:1", "fail="+hostile)
	r.send("web:1", hostile, actors.Delay(time.Hour))
	p.Goto(r.url + "/board/")
	p.AwaitText("tbody", "web:1")
	p.Goto(r.url + "/board/s/web:1")
	p.AwaitText("#transcript", "echo: <script>")
	// The same text, streamed into the page by its script.
	r.send("web:1", "stream=2 tick=1h "+hostile+hostile)
	p.AwaitText("#reply", "owned")
	shown := p.Text("#reply")
	_, err := r.client.Session("web:1").Stop(t.Context())
	expect.OK(t, err)
	p.Await(`!document.querySelector("#reply")`)
	for _, text := range []string{shown, p.Text("#session")} {
		for _, part := range []string{"\x1b", "\x07", "\u202e", "\u2066", "\x00"} {
			if strings.Contains(text, part) {
				t.Errorf("%q has %q", text, part)
			}
		}
	}
	expect.Equal(t, "scripts of texts", p.Eval("document.querySelectorAll('main script, main img').length"), "0")
	if title := p.Eval("document.title"); title != "web:1 · Turnstile" {
		t.Errorf("title %q", title)
	}
}

// The browser's policy: if a foreign script got into a page, it would not run.
func TestPolicyForbidsInlineScripts(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	p.Goto(r.url + "/board/")
	p.Eval(`(() => { const s = document.createElement("script"); s.textContent = "window.ran = 1"; document.body.append(s);
		const d = document.createElement("div"); d.innerHTML = "<b onclick='window.ran = 1'>x</b>"; document.body.append(d); d.firstChild.click(); })()`)
	expect.Equal(t, "the script ran", p.Eval("window.ran"), "undefined")
	if n := p.Refused(); n == 0 {
		t.Error("the browser has refused nothing")
	}
}

func TestReadOnlyTokenInABrowser(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t, reader)
	r.worker()
	r.say("web:1", "hello")
	p.Goto(r.url + "/board/login?to=/board/s/web:1")
	p.Type("#token", "reader\r")
	p.AwaitText("#transcript", "echo: hello")
	expect.Equal(t, "buttons", p.Eval("document.querySelectorAll('main button, main textarea').length"), "0")
	r.send("web:1", "stream=2 tick=1h a b c d e f g h")
	p.AwaitText("#reply", "echo: a")
	_, err := r.client.Session("web:1").Stop(t.Context())
	expect.OK(t, err)
	p.AwaitText("#transcript", "echo: a")
}

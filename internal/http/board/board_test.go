package board_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, writer)
	r.send("web:1", "hello")
	r.has(r.get("/board/s/web:1"), 200, "Log in", `value="/board/s/web:1"`)
	r.has(r.login("wrong"), 401, "This token is unknown")
	r.has(r.get("/board/"), 200, "Log in")
	p := r.post("/board/login", url.Values{"token": {"boss"}, "to": {"/board/s/web:1"}})
	r.has(p, 200, "hello", "boss", "Log out")
	expect.Equal(t, "landing", p.Request.URL.Path, "/board/s/web:1")
	for _, to := range []string{"https://evil.example/", "//evil.example/", "/board/../v1", "/board/\\evil", "", "/board/login"} {
		expect.Equal(t, "landing of "+to, r.post("/board/login", url.Values{"token": {"boss"}, "to": {to}}).Request.URL.Host, strings.TrimPrefix(r.url, "http://"))
	}
	r.has(r.post("/board/logout", url.Values{}), 200, "Log in")
	r.has(r.get("/board/"), 200, "Log in")
	r.login("writer")
	r.has(r.get("/board/"), 403, "writer may not read")
}

// The cookie is for the browser only, and for this site.
func TestCookie(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := r.login("reader").Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.MaxAge != 12*3600 {
		t.Errorf("%+v", c)
	}
	if c := r.request(http.MethodPost, "/board/login", url.Values{"token": {"boss"}}, "X-Forwarded-Proto", "https").Cookies()[0]; !c.Secure {
		t.Errorf("behind TLS: %+v", c)
	}
	r.http.Jar = nil
	with := func(value string) int {
		return r.request(http.MethodGet, "/board/", nil, "Cookie", c.Name+"="+value).StatusCode
	}
	expect.Equal(t, "the cookie", with(c.Value), 200)
	parts := strings.SplitN(c.Value, ".", 3)
	for what, value := range map[string]string{
		"another name": parts[0] + "." + parts[1] + ".boss", "a later end": "9999999999." + parts[1] + ".reader",
		"no MAC": parts[0] + "..reader", "nothing": "", "an unknown name": parts[0] + "." + parts[1] + ".nobody",
	} {
		if got := with(value); got != http.StatusSeeOther {
			t.Errorf("%s: %d", what, got)
		}
	}
	// The API takes the cookie for events only.
	for path, want := range map[string]int{"/v1/sessions/web:1": 401, "/v1/sessions/web:1/transcript": 401, "/v1/sessions/web:1/events": 200, "/v1/sessions/x/events": 404} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, http.NoBody)
		expect.OK(t, err)
		request.Header.Set("Cookie", c.Name+"="+c.Value)
		response, err := r.http.Do(request)
		expect.OK(t, err)
		response.Body.Close()
		expect.Equal(t, path, response.StatusCode, want)
	}
}

func TestListByStateAndPrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("web:done", "hello")
	r.say("web:failed", "fail=broken")
	r.say("tg:done", "hello")
	r.has(r.get("/board/"), 200, "web:done", "web:failed", "tg:done")
	p := r.get("/board/?prefix=web:")
	r.has(p, 200, "web:done", "web:failed", `value="web:"`)
	r.lacks(p, "tg:done")
	expect.OK(t, r.client.Session("tg:done").SetTitle(t.Context(), "Invoice of WEB: 7"))
	for search, finds := range map[string][]string{"web:": {"web:done", "web:failed", "tg:done"}, "invoice OF": {"tg:done"}, "tg:": {"tg:done"}, "a/b": nil} {
		p := r.get("/board/?prefix=" + url.QueryEscape(search))
		r.has(p, 200)
		expect.Equal(t, "rows of "+search, strings.Count(p.text, "<tr data-row="), len(finds))
		for _, key := range finds {
			r.has(p, 200, `data-row="`+key+`"`)
		}
	}
	p = r.get("/board/?state=attention")
	r.has(p, 200, "web:failed")
	r.lacks(p, "web:done")
	r.has(r.get("/board/?state=paused"), 200, "No session here matches")
	r.has(r.get("/board/?cursor=x"), 400, "breaks a rule")
	r.has(r.get("/board/open?session=web:new"), 404, "There is no such session yet", `id="message"`)
	r.has(r.get("/board/open?session=a/b"), 400, "session key")
	r.has(r.get("/board/nothing"), 404, "There is no page")
}

func TestListHasPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.many(120)
	seen, path := map[string]int{}, "/board/"
	for pages := 1; ; pages++ {
		p := r.get(path)
		r.has(p, 200)
		for part := range strings.SplitSeq(p.text, `data-row="`) {
			if key, _, ok := strings.Cut(part, `"`); ok && strings.HasPrefix(key, "web:") {
				seen[key]++
			}
		}
		_, next, more := strings.Cut(p.text, `id="next" href="`)
		if !more {
			expect.Equal(t, "pages", pages, 3)
			break
		}
		path, _, _ = strings.Cut(next, `"`)
		path = strings.ReplaceAll(path, "&amp;", "&")
	}
	expect.Equal(t, "sessions", len(seen), 120)
}

func TestSessionPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("web:1", "tool=look usage=1200:350 title=About_things first")
	r.say("web:1", "fail=no_luck second")
	r.send("web:1", "later", actors.Delay(time.Hour))
	p := r.get("/board/s/web:1")
	r.has(p, 200, "<h1>About things</h1>", "web:1", "echo: first", "look", "1200 tokens in, 350 out", "failed", "no_luck", "later", "due ")
	r.send("web:2", "ask=shell sleep=1m")
	expect.Soon(t, "question", func() bool { return strings.Contains(r.get("/board/s/web:2").text, "The agent asks") })
	r.send("web:2", "behind")
	r.has(r.get("/board/s/web:2"), 200, `id="approve"`, "shell", "Waiting", "behind", "queued")
	r.has(r.get("/board/"), 200, "asks: shell")
}

func TestTranscriptHasPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	for _, text := range []string{"first", strings.Repeat("tool=x ", 100) + "second", "third"} {
		r.say("web:1", text)
	}
	p := r.get("/board/s/web:1")
	r.has(p, 200, "echo: third", `id="older"`, "data-stream=\"/v1/")
	r.lacks(p, "echo: first")
	_, older, _ := strings.Cut(p.text, `id="older" href="`)
	older, _, _ = strings.Cut(older, `"`)
	p = r.get(strings.ReplaceAll(older, "&amp;", "&"))
	r.has(p, 200, "echo: first", "Newest entries", `data-stream=""`)
	r.lacks(p, "echo: third")
	r.has(r.get("/board/s/web:1?before=x"), 400)
}

func TestButtons(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss)
	r.login("boss")
	r.worker()
	entries := func() int {
		info, err := r.client.Session("web:1").Info(t.Context())
		expect.OK(t, err)
		list, err := actors.Transcript(t.Context(), r.client.Session("web:1"), info.TranscriptID)
		expect.OK(t, err)
		return len(list)
	}
	idle := func() bool {
		info, err := r.client.Session("web:1").Info(t.Context())
		expect.OK(t, err)
		return info.Phase == session.PhaseIdle && info.Waiting == 0
	}
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {"one\r\ntwo"}, "id": {"m1"}}), 200, "The message was sent")
	o, err := r.client.Session("web:1").Wait(t.Context(), "m1")
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply, "echo: one\ntwo")
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {"one\r\ntwo"}, "id": {"m1"}}), 200)                                       // a click too many
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {"other"}, "id": {"m1"}}), 409, "belongs to another", ">other</textarea>") // the browser's back button
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {" "}, "id": {"m2"}}), 400, "text is empty")
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {"/stop"}, "id": {"m3"}}), 200) // no command
	o, err = r.client.Session("web:1").Wait(t.Context(), "m3")
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply, "echo: /stop")
	expect.Soon(t, "idle", idle)
	expect.Equal(t, "entries", entries(), 4)
	r.has(r.post("/board/s/web:1/undo", none), 200, "The last turn was removed: 2 entries")
	expect.Equal(t, "entries", entries(), 2)
	r.has(r.post("/board/s/web:1/retry", none), 200, "runs again")
	expect.Soon(t, "the turn's entries", func() bool { return idle() && entries() == 2 })
	r.send("web:1", "sleep=1m")
	r.send("web:1", "behind")
	r.has(r.post("/board/s/web:1/stop", none), 200, "The turn ends")
	expect.Soon(t, "idle", idle)
	r.has(r.get("/board/s/web:1"), 200, "Dead letters", "stopped")
	r.has(r.post("/board/s/web:1/rerun", none), 200, "Dead letters requeued: 2.")
	r.has(r.post("/board/s/web:1/stop", none), 200)
	expect.Soon(t, "idle", idle)
	r.has(r.post("/board/s/web:1/approve", url.Values{"question": {"x.1"}}), 409, "No question is open")
	r.has(r.get("/board/s/web:1/forget"), 200, "cannot be undone", "web:1")
	r.has(r.post("/board/s/web:1/forget", url.Values{"session": {"web:2"}}), 400)
	r.has(r.post("/board/s/web:1/forget", url.Values{"session": {"web:1"}}), 200, "There is no session yet")
	r.has(r.get("/board/s/web:1"), 404)
}

// none is a form without fields.
var none = url.Values{}

func TestDecideOnTheBoard(t *testing.T) {
	t.Parallel()
	r := newRig(t, sender, boss)
	r.worker()
	asked := func() string {
		question := ""
		expect.Soon(t, "question", func() bool {
			_, rest, ok := strings.Cut(r.get("/board/s/web:1").text, `name="question" value="`)
			question, _, _ = strings.Cut(rest, `"`)
			return ok
		})
		return question
	}
	r.login("boss")
	id := r.send("web:1", "ask=shell done")
	question := asked()
	r.login("sender")
	p := r.get("/board/s/web:1")
	r.has(p, 200, "The agent asks")
	r.lacks(p, `id="approve"`) // it is not the sender of this message, see GATEWAY_APPROVE
	r.has(r.post("/board/s/web:1/approve", url.Values{"question": {question}}), 403, "sent none of the messages for which the turn began")
	r.login("boss")
	r.has(r.post("/board/s/web:1/approve", url.Values{"question": {"other.1"}}), 409, "Another question")
	r.has(r.post("/board/s/web:1/deny", url.Values{"question": {question}}), 200, "Denied")
	o, err := r.client.Session("web:1").Wait(t.Context(), id)
	expect.OK(t, err)
	expect.Equal(t, "status", o.Status, session.StatusDone)
	r.login("sender")
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {"ask=shell mine"}, "id": {"m2"}}), 200)
	question = asked()
	r.has(r.post("/board/s/web:1/approve", url.Values{"question": {question}}), 200, "Approved")
	o, err = r.client.Session("web:1").Wait(t.Context(), "m2")
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply, "echo: mine")
}

// A token that may only read sees no button, and its forms are refused.
func TestReadOnlyToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, reader)
	r.worker()
	r.say("web:1", "hello")
	r.say("other:1", "secret")
	r.login("reader")
	p := r.get("/board/s/web:1")
	r.has(p, 200, "echo: hello")
	r.lacks(p, `action="/board/s/`, "<textarea", "forget")
	p = r.get("/board/")
	r.has(p, 200, "web:1")
	r.lacks(p, "other:1", "/board/open")
	for _, name := range []string{"send", "stop", "retry", "undo", "rerun", "forget", "approve", "always", "deny"} {
		r.has(r.post("/board/s/web:1/"+name, url.Values{"session": {"web:1"}, "text": {"x"}, "question": {"x.1"}}), 403)
		r.has(r.post("/board/s/other:1/"+name, url.Values{"session": {"other:1"}, "text": {"x"}, "question": {"x.1"}}), 404)
	}
	r.has(r.get("/board/s/web:1/forget"), 403)
	r.has(r.get("/board/s/other:1"), 404, "unknown")
}

// Another site's page changes nothing, with tokens and without.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tokens := range [][]token{nil, {boss}} {
		r := newRig(t, tokens...)
		r.login("boss")
		form := url.Values{"text": {"x"}, "id": {"m"}, "token": {"boss"}}
		for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
			for _, path := range []string{"/board/s/web:1/send", "/board/login", "/board/logout"} {
				r.has(r.request(http.MethodPost, path, form, headers...), 403)
			}
		}
		r.has(r.get("/board/s/web:1"), 404)
		p := r.get("/board/")
		expect.Equal(t, "frames", p.Header.Get("X-Frame-Options"), "DENY")
		if policy := p.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("policy %q", policy)
		}
		r.lacks(p, "<style", " style=", " onclick", "<script>")
	}
	r := newRig(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/board/", http.NoBody)
	expect.OK(t, err)
	request.Host = "evil.example"
	response, err := r.http.Do(request)
	expect.OK(t, err)
	response.Body.Close()
	expect.Equal(t, "another host", response.StatusCode, 403)
}

const hostile = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> \x1b[2J\x1b]0;owned\x07 a\u202egnp.exe\u2066 \x00 \u2028 {{.}} ' \" &lt;"

func TestHostileTextsAreData(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("web:1", hostile)
	r.say("web:1", "tool=<script>x</script> fail=<script>alert(1)</script>")
	expect.OK(t, r.client.Session("web:1").SetTitle(t.Context(), "<script>title</script>"))
	r.send("web:1", hostile, actors.Delay(time.Hour))
	for _, path := range []string{"/board/s/web:1", "/board/", "/board/s/web:1/forget", "/board/?state=%3Cscript%3E", "/board/?prefix=%3Cscript%3E", "/board/s/web:1?done=%3Cscript%3E&n=1",
		"/board/%3Cscript%3Ealert(1)%3C/script%3E", "/board/open?session=%3Cscript%3E", "/board/login?to=%22%3E%3Cscript%3E"} {
		p := r.get(path)
		r.lacks(p, "<script>", "<img src=x", "\x1b", "\x07", "\x00", "\u202e", "\u2066", "\u2028")
	}
	r.say("web:long", strings.Repeat("€", 30_000)) // a cut in the middle of a character
	p := r.get("/board/s/web:long")
	r.has(p, 200, "[40000 more bytes are not shown here]")
	r.lacks(p, "\uFFFD")
	r.has(r.get("/board/s/web:1"), 200, "&lt;script&gt;document.title", "\uFFFD[2J", "agnp.exe", "{{.}}")
}

// Undelivered outcomes are on the page, and forget needs a second confirmation.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	id := r.send("web:1", "hello", actors.ReplyTo(wire.Route{To: "helpdesk"}))
	_, err := r.client.Session("web:1").Wait(t.Context(), id)
	expect.OK(t, err)
	r.has(r.get("/board/s/web:1"), 200, "Not delivered yet", "message.done to helpdesk", "delivery <code class=\"id\">", "waits")
	form := url.Values{"session": {"web:1"}}
	expect.Soon(t, "idle", func() bool { // after the turn's end, the worker may still have the session
		return !strings.Contains(r.get("/board/s/web:1").text, `class="state running"`)
	})
	r.has(r.post("/board/s/web:1/forget", form), 409, "1 wait to be delivered", "all the same")
	r.has(r.get("/board/s/web:1"), 200, "echo: hello")
	form.Set("undelivered", "drop")
	r.has(r.post("/board/s/web:1/forget", form), 200, "There is no session yet")
}

// A receiver that is away is on the overview, under attention and on the session's page, with the number of outcomes, and
// without a next try in the past.
func TestReceiverThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	for _, key := range []string{"web:1", "web:2"} {
		id := r.send(key, "hello", actors.ReplyTo(wire.Route{To: "erp"}))
		_, err := r.client.Session(key).Wait(t.Context(), id)
		expect.OK(t, err)
	}
	for _, key := range []string{"web:1", "web:2"} {
		taken, err := deliveries.TakeLines(t.Context(), r.redis, key, []deliveries.Line{{Destination: "erp", MaxAge: time.Hour}}, time.Minute)
		expect.OK(t, err)
		_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.Again, Wait: time.Millisecond, Why: "connection refused"}.Do(t.Context(), r.redis)
		expect.OK(t, err)
		expect.OK(t, deliveries.NeedAttention(t.Context(), r.redis, time.Now().UnixMilli(), key))
	}
	const away = "erp does not take its deliveries: "
	expect.Soon(t, "the attempts to be over", func() bool { return strings.Contains(r.get("/board/s/web:1").text, "next try now") })
	r.has(r.get("/board/s/web:1"), 200, away+"1 outcome waits, the first since 20", "): connection refused; next try now")
	r.has(r.get("/board/?state=attention"), 200, away+"2 outcomes wait", "connection refused; next try now", ">web:1</a>", ">web:2</a>",
		"erp does not take 1 outcome<", "<b>2</b> with undelivered outcomes")
	_, err := deliveries.Finding{Destination: "erp", Pause: time.Hour, Why: "connection refused"}.Store(t.Context(), r.redis)
	expect.OK(t, err)
	for _, path := range []string{"/board/", "/board/s/web:1"} {
		r.has(r.get(path), 200, "connection refused; next try in 1 h")
	}
	expect.OK(t, admin.NewClient(r.redis).PauseDestination(t.Context(), "erp", "paused by an operator"))
	for _, path := range []string{"/board/", "/board/s/web:1"} {
		r.has(r.get(path), 200, "paused by an operator; nothing is sent until an operator enables the destination")
	}
}

// A message sent on the board belongs to the session: its outcome goes to the session's
// destination.
func TestDestinationsOfWhatTheBoardSends(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "destinations.json")
	entry := `[{"name": "bot", "url": "https://bot.example", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["tg:*"]}]`
	expect.OK(t, os.WriteFile(path, []byte(entry), 0o600))
	file, err := outbox.OpenFile(path)
	expect.OK(t, err)
	r := newRigTo(t, file)
	r.worker()
	for key, want := range map[string]int{"tg:1": 1, "web:1": 0} {
		r.has(r.post("/board/s/"+key+"/send", url.Values{"text": {"hello"}, "id": {"m1"}}), 200)
		_, err := r.client.Session(key).Wait(t.Context(), "m1")
		expect.OK(t, err)
		owing, err := admin.NewClient(r.redis).Session(key).Undelivered(t.Context())
		expect.OK(t, err)
		expect.Equal(t, "stored for "+key, owing.Waiting, want)
	}
}

package examples

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// ann is a user. Her chat with the bot has the same number.
const ann = 1001

// relay passes requests on to a server that may change.
type relay struct {
	*httptest.Server
	target atomic.Pointer[url.URL]

	// onResponse sees each 2xx to a POST before it is passed on, and may end the connection by an error.
	onResponse atomic.Pointer[func() error]

	mu   sync.Mutex
	seen []*http.Request
}

func newRelay(t *testing.T) *relay {
	r := &relay{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(r.target.Load()) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Transport:     &http.Transport{DisableKeepAlives: true},
		ModifyResponse: func(resp *http.Response) error {
			if do := r.onResponse.Load(); do != nil && resp.StatusCode/100 == 2 && resp.Request.Method == http.MethodPost {
				return (*do)()
			}
			return nil
		},
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req.Clone(req.Context()))
		r.mu.Unlock()
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	t.Cleanup(r.CloseClientConnections)
	return r
}

func (r *relay) to(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	expect.OK(t, err)
	r.target.Store(u)
}

// headers returns the values of a header of the requests to paths with that end, without empty ones.
func (r *relay) headers(end, name string) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.seen {
		if value := req.Header.Get(name); value != "" && strings.HasSuffix(req.URL.Path, end) {
			list = append(list, value)
		}
	}
	return list
}

// A reply that streams for about 5 s.
const (
	streaming = "stream=12 tick=400ms one two three four five six seven"
	streamed  = "echo: one two three four five six seven"
)

// telegramRig is a bot between Telegram, a gateway and a deliverer.
type telegramRig struct {
	*telegramAPI
	gateway, deliveries *relay
	bot                 *program.Process
	db                  string
}

// newTelegramRig starts all but the bot.
func newTelegramRig(t *testing.T) *telegramRig {
	t.Helper()
	needPython(t)
	rig := &telegramRig{telegramAPI: newTelegramAPI(t), gateway: newRelay(t), deliveries: newRelay(t), db: filepath.Join(t.TempDir(), "telegram.db")}
	rig.deliveries.to(t, "http://127.0.0.1:1") // nobody listens there
	tokens, destinations := filepath.Join(t.TempDir(), "tokens.json"), filepath.Join(t.TempDir(), "destinations.json")
	expect.OK(t, os.WriteFile(tokens, fmt.Appendf(nil,
		`[{"name": "telegram", "sha256": "%x", "sessions": ["telegram:*"], "may": ["send", "read", "control"]}]`, sha256.Sum256([]byte("telegram-secret"))), 0o600))
	expect.OK(t, os.WriteFile(destinations, fmt.Appendf(nil,
		`[{"name": "telegram", "url": %q, "secrets": [%q], "sessions": ["telegram:*"], "private": true}]`, rig.deliveries.URL, webhookSecret), 0o600))
	redis := "REDIS_URL=" + redistest.URL(t)
	worker := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		redis, "TURNSTILE_AGENT=echo", "TURNSTILE_DELIVER=true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + destinations,
	}))
	gateway := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
		redis, "TURNSTILE_GATEWAY_ADDR=127.0.0.1:0", "TURNSTILE_GATEWAY_TOKENS_FILE=" + tokens, "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + destinations,
	}))
	worker.Output.Await(t, "delivering")
	served, _, _ := strings.Cut(gateway.Output.Await(t, "serving HTTP"), "\n")
	_, served, _ = strings.Cut(served, "addr=")
	rig.gateway.to(t, "http://"+strings.Fields(served)[0])
	return rig
}

// starts starts the bot.
func (rig *telegramRig) starts() {
	rig.Helper()
	rig.bot = program.Start(rig, program.Command(rig, "python3", []string{
		"TELEGRAM_API=" + rig.url, "TELEGRAM_TOKEN=" + telegramToken, "TELEGRAM_CHATS=1001,1002", "TURNSTILE_URL=" + rig.gateway.URL,
		"TURNSTILE_TOKEN=telegram-secret", "WEBHOOK_SECRET=" + webhookSecret, "WEBHOOK_ADDR=127.0.0.1:0", "BOT_DB=" + rig.db, "PYTHONDONTWRITEBYTECODE=1",
	}, example(rig.T, "telegram-bot", "bot.py")))
	port, _, _ := strings.Cut(rig.bot.Output.Await(rig, "listening on "), "\n")
	rig.deliveries.to(rig.T, "http://127.0.0.1:"+port)
}

// diesAt kills the bot when a relay has the next response to a POST, which the bot or the deliverer
// does not get.
func (rig *telegramRig) diesAt(r *relay) {
	died := func() error {
		r.onResponse.Store(nil)
		rig.bot.Kill()
		return errors.New("the bot is dead")
	}
	r.onResponse.Store(&died)
}

// polling waits until the bot has taken every update and waits for others.
func (rig *telegramRig) polling() {
	rig.Helper()
	expect.Soon(rig, "the bot to wait for updates", func() bool {
		rig.mu.Lock()
		defer rig.mu.Unlock()
		return rig.polls > 0 && len(rig.updates) == 0
	})
}

// delivered waits until the bot has acknowledged all deliveries of the session.
func (rig *telegramRig) delivered(key string) {
	rig.Helper()
	operator := admin.NewClient(redistest.New(rig.T))
	expect.Soon(rig, "the bot to acknowledge", func() bool {
		owing, err := operator.Session(key).Undelivered(rig.Context())
		return err == nil && owing == admin.Undelivered{}
	})
}

func TestTelegramBot(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	id := rig.says(ann, "<b>bold</b> 2*3*4 &amp; \x1b[31m")
	reply := rig.await(ann, 1, "echo")
	expect.Equal(t, "the reply", reply.Text, "echo: <b>bold</b> 2*3*4 &amp; \x1b[31m")
	expect.Equal(t, "the message that it replies to", reply.ReplyTo, id)

	// A text with a slash is data, unless it is one of three commands.
	rig.says(ann, "/undo")
	rig.await(ann, 2, "echo: /undo")
	rig.says(ann, "/new@turnstile_bot")
	rig.await(ann, 3, "The next message begins a new conversation.")
	rig.says(ann, "/new@other_bot")
	rig.says(ann, "/status")
	rig.await(ann, 4, "Idle: nothing runs, nothing waits.")

	// /stop ends the running turn and the waiting messages.
	rig.says(ann, "sleep=1m long")
	rig.says(ann, "waits")
	rig.polling()
	rig.says(ann, "/stop")
	expect.Soon(t, "the end of two messages", func() bool {
		return len(slices.DeleteFunc(rig.texts(ann), func(text string) bool { return text != "Stopped." })) == 2
	})

	rig.says(666, "let me in")
	rig.await(666, 1, "This bot does not serve this chat. Its id is 666.")
	if keys := rig.gateway.headers("telegram:dm:666/messages", "Idempotency-Key"); len(keys) > 0 {
		t.Errorf("the gateway got messages of another chat: %q", keys)
	}
	if out := rig.bot.Output.String(); strings.Contains(out, telegramToken) || strings.Contains(out, "Traceback") {
		t.Errorf("the bot printed %s", out)
	}
}

// With an invalid token or address, the error does not print the token.
func TestTelegramBotKeepsItsToken(t *testing.T) {
	t.Parallel()
	needPython(t)
	for api, token := range map[string]string{"localhost": telegramToken, "http://127.0.0.1:1": telegramToken + " "} {
		bot := program.Start(t, program.Command(t, "python3", []string{
			"TELEGRAM_API=" + api, "TELEGRAM_TOKEN=" + token, "WEBHOOK_SECRET=" + webhookSecret, "WEBHOOK_ADDR=127.0.0.1:0",
			"BOT_DB=" + filepath.Join(t.TempDir(), "telegram.db"), "PYTHONDONTWRITEBYTECODE=1",
		}, example(t, "telegram-bot", "bot.py")))
		bot.Output.Await(t, "no response: ")
		if out := bot.Output.String(); strings.Contains(out, telegramToken) || !strings.Contains(out, "malformed") {
			t.Errorf("the bot printed %s", out)
		}
	}
}

// A picture reaches the agent with its caption, in the largest size that fits, and without the bot's
// token.
func TestTelegramBotTakesPictures(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	sizes := []any{rig.sizeOf("small.jpg", 90, 3, "sml"), rig.sizeOf("fits.jpg", 800, 4, "fits"), rig.sizeOf("large.jpg", 9000, 5_000_000, "large")}
	rig.posts(ann, map[string]any{"photo": sizes, "caption": "what is this?"})
	rig.await(ann, 1, "echo: what is this?")
	rig.posts(ann, map[string]any{"photo": sizes[:1]})
	rig.await(ann, 2, "echo: A picture.")
	rig.posts(ann, map[string]any{"document": map[string]any{"file_id": "fits.jpg", "file_name": "plan.png", "mime_type": "image/png"}})
	rig.await(ann, 3, "echo: A picture.")
	page, err := turnstile.NewClient(redistest.New(t)).Session("telegram:dm:1001").Transcript(t.Context(), turnstile.TranscriptQuery{})
	expect.OK(t, err)
	var got []string
	for _, e := range page.Entries {
		for _, a := range e.Attachments {
			got = append(got, fmt.Sprint(e.Text, " ", a.Name, " ", a.Mime, " ", a.URL))
		}
	}
	expect.List(t, "attachments", got, "what is this? fits.jpg image/jpeg data:image/jpeg;base64,Zml0cw==",
		"A picture. small.jpg image/jpeg data:image/jpeg;base64,c21s", "A picture. plan.png image/png data:image/png;base64,Zml0cw==")

	// It reports content that it cannot handle, and continues.
	rig.posts(ann, map[string]any{"photo": sizes[2:], "caption": "too large"})
	rig.await(ann, 4, "A picture may have 1,000,000 bytes.")
	rig.posts(ann, map[string]any{"photo": []any{map[string]any{"file_id": "gone.jpg", "width": 1, "height": 1}}})
	rig.await(ann, 5, "Telegram does not give me this picture.")
	rig.posts(ann, map[string]any{"voice": map[string]any{}, "caption": "listen"})
	rig.await(ann, 6, "I read text and pictures only.")
	rig.says(ann, "still there?")
	rig.await(ann, 7, "echo: still there?")
}

// The bot verifies deliveries, and drops one that is late.
func TestTelegramBotVerifies(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	b, now := bot{rig.bot, rig.deliveries.target.Load().String()}, time.Now()
	expect.Equal(t, "a delivery", b.post(t, webhookSecret, now, 7, "first"), 204)
	expect.Equal(t, "another's signature", b.post(t, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", now, 8, "forged"), 401)
	expect.Equal(t, "an old one", b.post(t, webhookSecret, now.Add(-6*time.Minute), 8, "replayed"), 401)
	expect.Equal(t, "a late one", b.post(t, webhookSecret, now, 6, "late"), 204)
	expect.Equal(t, "the next one", b.post(t, webhookSecret, now, 8, "second"), 204)
	expect.Equal(t, "a ping", b.send(t, webhookSecret, now, 0, []byte(`{"type":"ping","data":{}}`)), 204)
	expect.Equal(t, "no delivery", b.send(t, webhookSecret, now, 9, []byte(`[]`)), 400)
	expect.Equal(t, "one without data", b.send(t, webhookSecret, now, 9, []byte(`{"type":"message.done"}`)), 400)
	expect.Equal(t, "one without a sequence", b.send(t, webhookSecret, now, -1, []byte(`{"type":"message.done","data":{"session":"telegram:dm:1001","messages":[]}}`)), 400)
	expect.List(t, "messages", rig.texts(ann), "first", "second")
}

// A delivery becomes a dead letter if its responses are lost. Redriven, it has a new sequence, and the
// chat gets its reply once.
func TestTelegramBotKnowsARedrivenDelivery(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	lost := func() error { return errors.New("the response is lost") }
	rig.deliveries.onResponse.Store(&lost)
	client, operator := actors.NewClient(redistest.New(t)), admin.NewClient(redistest.New(t))
	const key = "telegram:dm:1001"
	_, err := client.Session(key).Send(t.Context(), turnstile.Message{Text: "once", ReplyTo: "telegram", ReplyWithin: 2 * time.Second})
	expect.OK(t, err)
	expect.Soon(t, "the dead letter", func() bool {
		owing, err := operator.Session(key).Undelivered(t.Context())
		return err == nil && owing.GivenUp == 1
	})
	rig.deliveries.onResponse.Store(nil)
	rig.says(ann, "after")
	rig.await(ann, 2, "echo: after")
	n, err := operator.Session(key).Redrive(t.Context(), "telegram")
	expect.OK(t, err)
	expect.Equal(t, "redriven deliveries", n, 1)
	rig.delivered(key)
	ids := rig.deliveries.headers("", "webhook-id")
	expect.Equal(t, "the id of the last delivery", ids[len(ids)-1], ids[0])
	expect.List(t, "messages", rig.texts(ann), "echo: once", "echo: after")
}

// If the gateway dies during a command, the command may have been carried out: the bot says so, and
// continues.
func TestTelegramBotTellsOfALostCommand(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.polling()
	rig.diesAt(rig.gateway)
	update := rig.says(ann, "/new")
	rig.bot.ExitCode()
	rdb := redistest.New(t)
	record := rediskey.For("telegram:dm:1001").Idem(strconv.Itoa(update))
	stored, err := rdb.Get(t.Context(), record).Result()
	expect.OK(t, err)
	begun := strings.Join(strings.SplitN(stored, " ", 3)[:2], " ") // the record of a command without a result yet
	expect.OK(t, rdb.Set(t.Context(), record, begun, time.Hour).Err())
	rig.starts()
	rig.await(ann, 1, "This may have been carried out before. Send /status to see.")
	rig.says(ann, "/status")
	rig.await(ann, 2, "Idle: nothing runs, nothing waits.")
}

// A long reply is split into several messages, and waits when Telegram requires it.
func TestTelegramBotSplits(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.polling()
	rig.change(func() { rig.limited = []int{1, 3, 5} })
	long := strings.Repeat(strings.Repeat("😀", 99)+"\n", 60)
	rig.says(ann, long)
	expect.Soon(t, "the whole reply", func() bool {
		return strings.Join(rig.texts(ann), "\n") == "echo: "+strings.TrimSpace(long)
	})
	rig.await(ann, 3, "😀")
	expect.Equal(t, "messages", len(rig.in(ann)), 3)
	expect.Equal(t, "deliveries that have an id of their own", len(slices.Compact(rig.deliveries.headers("", "webhook-id"))), 1)
	if n := len(rig.deliveries.headers("", "webhook-id")); n < 3 {
		t.Errorf("%d attempts, though Telegram refused three messages", n)
	}
	// A chat that blocks the bot stops no other one.
	rig.change(func() { rig.refused[ann] = true })
	rig.says(ann, "blocked")
	rig.says(1002, "hello")
	rig.await(1002, 1, "echo: hello")
}

// A reply's Markdown has Telegram's form, also a block of code that is split over two messages.
func TestTelegramBotFormats(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.polling()
	code := strings.TrimSuffix(strings.Repeat("x = 1\n", 700), "\n")
	rig.says(ann, "**bold** `a*b*` 2*3*4 snake_case_x 😀 [*li* nk](https://example.com/a_b)\n# Head\n- item\n```py\n"+code+"\n```\nend")
	expect.Soon(t, "the end", func() bool { return strings.HasSuffix(strings.Join(rig.texts(ann), ""), "end") })
	list := rig.in(ann)
	expect.Equal(t, "text", strings.Join(rig.texts(ann), "\n"), "echo: bold a*b* 2*3*4 snake_case_x 😀 li nk\nHead\n• item\n"+code+"\nend")
	first, last := list[0].Rich, list[1].Rich
	expect.List(t, "the first message", first[:len(first)-1],
		"bold: bold", "code: a*b*", "text_link https://example.com/a_b: li nk", "italic: li", "bold: Head")
	for name, block := range map[string]string{"first": first[len(first)-1], "second": last[0]} {
		if !strings.HasPrefix(block, "pre py: x = 1\n") {
			t.Errorf("the block in the %s message: %.40q", name, block)
		}
	}
}

// The reply appears in one message, which is edited at most once a second, also when the stream
// breaks.
func TestTelegramBotStreams(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	id := rig.says(ann, streaming)
	expect.Soon(t, "a preview", func() bool { return len(rig.in(ann)) > 0 && len(rig.in(ann)[0].Texts) > 1 })
	rig.gateway.CloseClientConnections()
	m := rig.await(ann, 1, streamed)
	expect.Equal(t, "messages", len(rig.in(ann)), 1)
	expect.Equal(t, "the message that it replies to", m.ReplyTo, id)
	if len(rig.gateway.headers("/events", "Last-Event-ID")) == 0 {
		t.Error("the bot did not go on behind an event")
	}
	if len(m.Texts) < 4 {
		t.Errorf("the preview had only the texts %q", m.Texts)
	}
	for i, text := range m.Texts {
		if !strings.HasPrefix(streamed, text) {
			t.Errorf("a preview is %q", text)
		}
		// The last edit is the delivery.
		if i > 0 && i < len(m.Texts)-1 && m.At[i].Sub(m.At[i-1]).Seconds() < 0.9 {
			t.Errorf("an edit comes %s behind the one before", m.At[i].Sub(m.At[i-1]))
		}
	}
}

// A turn with several messages has one reply. The reply to a message that the bot did not send arrives
// too, always in the session's chat, whatever its context says.
func TestTelegramBotRepliesOnce(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	client := actors.NewClient(redistest.New(t))
	expect.OK(t, client.Session("telegram:dm:1001").SetQueue(t.Context(), session.QueueSettings{Mode: session.ModeSteer}))
	rig.starts()
	first := rig.says(ann, "tool=search:3s one")
	expect.Soon(t, "the turn", func() bool {
		s, err := client.Session("telegram:dm:1001").Info(t.Context())
		return err == nil && s.Turn != ""
	})
	rig.says(ann, "two")
	reply := rig.await(ann, 1, "echo: one\n\nsteered: two")
	expect.Equal(t, "the message that it replies to", reply.ReplyTo, first)
	_, err := client.Session("telegram:dm:1001").Send(t.Context(), turnstile.Message{Text: "a reminder", ReplyTo: "telegram", ReplyContext: json.RawMessage(`{"chat": 1002}`)})
	expect.OK(t, err)
	rig.await(ann, 2, "echo: a reminder")
	expect.Equal(t, "deliveries", len(rig.deliveries.headers("", "webhook-id")), 3)
	expect.Equal(t, "messages", len(rig.in(ann)), 2)
}

func TestTelegramBotAsks(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	for i, c := range []struct{ label, said, end string }{
		{"approve", "Approved by Ann", "echo: go on"},
		{"deny", "Denied by Ann", "echo: go on"},
	} {
		rig.says(ann, "ask=rm_"+c.label+" go on")
		question := rig.await(ann, 2*i+1, "May I do this? rm_"+c.label)
		expect.Equal(t, "buttons", len(question.Buttons), 2)
		button := question.Buttons[i]
		if !strings.HasPrefix(button, c.label+" ") {
			t.Errorf("the button has the data %q", button)
		}
		expect.Equal(t, "what another user is told", rig.presses(1002, question, button), "Only the sender of the message may decide.")
		expect.Equal(t, "what the user is told", rig.presses(ann, question, button), c.said)
		rig.await(ann, 2*i+2, c.end)
		decided := rig.in(ann)[2*i]
		if !strings.HasSuffix(decided.Text, "\n\n"+c.said+".") || decided.Buttons != nil {
			t.Errorf("the question is now %q with the buttons %q", decided.Text, decided.Buttons)
		}
		expect.Equal(t, "what is told of a button that is pressed again", rig.presses(ann, question, button), "Not open any more")
	}

	// A question that ends undecided loses its buttons.
	rig.says(ann, "ask=last go on")
	rig.await(ann, 5, "May I do this? last")
	rig.says(ann, "/stop")
	expect.Soon(t, "the question to close", func() bool {
		m := rig.in(ann)[4]
		return strings.HasSuffix(m.Text, "Not open any more.") && m.Buttons == nil
	})
}

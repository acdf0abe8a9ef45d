package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// bot is the Python example of a receiver.
type bot struct {
	*program.Process
	url string
}

// startBot starts it on a free port. db stores the handled deliveries.
func startBot(t *testing.T, db string, env ...string) bot {
	t.Helper()
	needPython(t)
	p := program.Start(t, program.Command(t, "python3", append(env, "WEBHOOK_SECRET="+webhookSecret, "BOT_DB="+db), example(t, "webhook-bot", "bot.py"), "0"))
	port, _, _ := strings.Cut(p.Output.Await(t, "listening on "), "\n")
	return bot{p, "http://127.0.0.1:" + port}
}

// post sends the bot a delivery and returns the status.
func (b bot) post(t *testing.T, secret string, at time.Time, sequence int, reply string) int {
	t.Helper()
	return b.send(t, secret, at, sequence, fmt.Appendf(nil, `{"type":"message.done","data":{"session":"telegram:dm:1001","messages":["m"],"outcome":{"reply":%q}}}`, reply))
}

// send sends the bot a body. A negative sequence is left out.
func (b bot) send(t *testing.T, secret string, at time.Time, sequence int, body []byte) int {
	t.Helper()
	id := fmt.Sprint("id", sequence)
	hook, err := standardwebhooks.NewWebhook(secret)
	expect.OK(t, err)
	signature, err := hook.Sign(id, at, body)
	expect.OK(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, bytes.NewReader(body))
	expect.OK(t, err)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("webhook-signature", "v1,b3RoZXI= "+signature)
	if sequence >= 0 {
		req.Header.Set("Turnstile-Sequence", strconv.Itoa(sequence))
	}
	resp, err := http.DefaultClient.Do(req)
	expect.OK(t, err)
	expect.OK(t, resp.Body.Close())
	return resp.StatusCode
}

// A worker delivers to the bot, in order.
func TestWebhookBot(t *testing.T) {
	t.Parallel()
	b := startBot(t, filepath.Join(t.TempDir(), "bot.db"), "BOT_SESSIONS=room:*")
	file := filepath.Join(t.TempDir(), "destinations.json")
	expect.OK(t, os.WriteFile(file, fmt.Appendf(nil, `[{"name": "bot", "url": %q, "secrets": [%q], "private": true}]`, b.url, webhookSecret), 0o600))
	client := actors.NewClient(redistest.New(t))
	worker := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=echo", "TURNSTILE_DELIVER=true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + file,
	}))
	worker.Output.Await(t, "delivering")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for _, text := range []string{"one", "two", "three"} {
		_, err := client.Session("room:7").Send(ctx, turnstile.Message{Text: text, ReplyTo: "bot", ReplyContext: json.RawMessage(`{"chat": 7}`)})
		expect.OK(t, err)
	}
	b.Output.Await(t, "three")
	var told []string
	for line := range strings.Lines(b.Output.String()) {
		var event [4]string
		if json.Unmarshal([]byte(line), &event) == nil {
			told = append(told, strings.Join(event[:3], " "))
		}
	}
	expect.List(t, "what the bot printed", told, "message.done room:7 7", "message.done room:7 7", "message.done room:7 7")
}

// The bot refuses unsigned deliveries, and handles none twice, also after a restart.
func TestWebhookBotVerifies(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "bot.db")
	b := startBot(t, db)
	now := time.Now()
	expect.Equal(t, "a delivery", b.post(t, webhookSecret, now, 7, "first"), 204)
	expect.Equal(t, "another's signature", b.post(t, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", now, 8, "forged"), 401)
	expect.Equal(t, "an old one", b.post(t, webhookSecret, now.Add(-6*time.Minute), 8, "replayed"), 401)
	expect.Equal(t, "a repetition", b.post(t, webhookSecret, now, 7, "repeated"), 204)
	expect.Equal(t, "a ping", b.send(t, webhookSecret, now, 0, []byte(`{"type":"ping","data":{}}`)), 204)
	expect.Equal(t, "a late one", b.post(t, webhookSecret, now, 6, "late"), 204)
	b.Kill()
	b = startBot(t, db)
	expect.Equal(t, "a repetition to the next bot", b.post(t, webhookSecret, now, 7, "repeated"), 204)
	expect.Equal(t, "the next one", b.post(t, webhookSecret, now, 8, "second"), 204)
	b.Output.Await(t, `"second"`)
	if out := b.Output.String(); strings.Count(out, "message.done") != 1 {
		t.Errorf("the bot printed %s", out)
	}
}

// A slow sender stops no other one, and a context need not be an object.
func TestWebhookBotGoesOn(t *testing.T) {
	t.Parallel()
	b := startBot(t, filepath.Join(t.TempDir(), "bot.db"))
	slow, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	expect.OK(t, err)
	defer slow.Close()
	_, err = slow.Write([]byte("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"))
	expect.OK(t, err)
	for i, context := range []string{`["room 7"]`, `"room 7"`, `7`, `null`, `{"chat": 7}`} {
		body := fmt.Appendf(nil, `{"type":"message.done","data":{"session":"7","messages":["m"],"context":%s,"outcome":{"reply":"hi"}}}`, context)
		expect.Equal(t, "a delivery with the context "+context, b.send(t, webhookSecret, time.Now(), i+1, body), 204)
	}
	b.Output.Await(t, `["message.done", "7", "7", "hi"]`)
	expect.Equal(t, "no delivery", b.send(t, webhookSecret, time.Now(), 9, []byte(`["message.done"]`)), 400)
	expect.Equal(t, "one without data", b.send(t, webhookSecret, time.Now(), 9, []byte(`{"type":"message.done"}`)), 400)
	expect.Equal(t, "one without a sequence", b.send(t, webhookSecret, time.Now(), -1, []byte(`{"type":"message.done","data":{"session":"7"}}`)), 400)
}

// The bot writes to the chat of the session, whatever chat the context names, and serves no other sessions.
func TestWebhookBotChecksTheSession(t *testing.T) {
	t.Parallel()
	b := startBot(t, filepath.Join(t.TempDir(), "bot.db"), "BOT_SESSIONS=telegram:dm:*")
	for sequence, c := range []struct {
		session, context string
		want             int
	}{
		{"web:1", `{"chat":1}`, 422},
		{"telegram:dm:1002", `{"chat":1001}`, 422},
		{"telegram:dm:1002", `{"chat":null}`, 422},
		{"telegram:dm:", `{"chat":""}`, 422},
		{"telegram:dm:1002", `{}`, 204},
		{"telegram:dm:1002", `{"chat":1002}`, 204},
	} {
		body := fmt.Appendf(nil, `{"type":"message.done","data":{"session":%q,"messages":["m"],"context":%s,"outcome":{"reply":"hi"}}}`, c.session, c.context)
		expect.Equal(t, c.session+" with the context "+c.context, b.send(t, webhookSecret, time.Now(), sequence, body), c.want)
		if c.want == 422 {
			b.Output.Await(t, fmt.Sprintf("refused id%d of the session %s\n", sequence, c.session))
		}
	}
	told := `["message.done", "telegram:dm:1002", "1002", "hi"]`
	b.Output.Await(t, told+"\n"+told)
	expect.Equal(t, "what the bot printed", strings.Count(b.Output.String(), "message.done"), 2)
}

func needPython(t *testing.T) {
	t.Helper()
	if _, err := osexec.LookPath("python3"); err != nil {
		expect.Lacks(t, "python3 on PATH")
	}
}

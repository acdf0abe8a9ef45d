package examples

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// platform is a chat platform that nobody has heard of. It keeps what it is given to show.
type platform struct {
	*httptest.Server
	mu    sync.Mutex
	shown []string
}

func newPlatform(t *testing.T) *platform {
	p := &platform{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Chat, Text string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("the platform got %v", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shown = append(p.shown, m.Chat+": "+m.Text)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *platform) messages() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.shown...)
}

// The bot of docs/first-bot.md, as it stands there: it acknowledges before the agent has replied, and a
// message that the platform sends again runs once.
func TestFirstBot(t *testing.T) {
	t.Parallel()
	needPython(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "first-bot.md"))
	expect.OK(t, err)
	_, code, _ := strings.Cut(string(page), "```python\n")
	code, _, whole := strings.Cut(code, "```\n")
	expect.Equal(t, "the page has the bot", whole, true)
	dir, chats := t.TempDir(), newPlatform(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	gateway, deliveries := newRelay(t), newRelay(t)
	const nobody = "http://127.0.0.1:1"
	gateway.to(t, nobody)
	running := program.Start(t, program.Command(t, "python3", []string{
		"TURNSTILE_URL=" + gateway.URL, "TURNSTILE_TOKEN=bot-secret", "WEBHOOK_SECRET=" + webhookSecret, "PLATFORM_URL=" + chats.URL, "BOT_DB=" + filepath.Join(dir, "bot.db"),
	}, file("bot.py", code), "0"))
	port, _, _ := strings.Cut(running.Output.Await(t, "listening on "), "\n")
	deliveries.to(t, "http://127.0.0.1:"+port)
	says := func(id, text string) int {
		t.Helper()
		event, err := json.Marshal(map[string]string{"id": id, "chat": "7", "user": "ann", "text": text})
		expect.OK(t, err)
		resp, err := http.Post("http://127.0.0.1:"+port+"/platform", "application/json", bytes.NewReader(event))
		expect.OK(t, err)
		expect.OK(t, resp.Body.Close())
		return resp.StatusCode
	}
	expect.Equal(t, "without a gateway", says("m1", "first"), 503)

	destinations := file("destinations.json", fmt.Sprintf(
		`[{"name": "bot", "url": %q, "secrets": [%q], "sessions": ["room:*"], "private": true}]`, deliveries.URL+"/turnstile", webhookSecret))
	tokens := file("tokens.json", fmt.Sprintf(`[{"name": "bot", "sha256": "%x", "sessions": ["room:*"], "may": ["send"]}]`, sha256.Sum256([]byte("bot-secret"))))
	redis := "REDIS_URL=" + redistest.URL(t)
	served := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
		redis, "TURNSTILE_GATEWAY_ADDR=127.0.0.1:0", "TURNSTILE_GATEWAY_TOKENS_FILE=" + tokens, "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + destinations,
	}))
	line, _, _ := strings.Cut(served.Output.Await(t, "serving HTTP"), "\n")
	_, line, _ = strings.Cut(line, "addr=")
	gateway.to(t, "http://"+strings.Fields(line)[0])

	// No worker runs yet, so the acknowledgement waits for no agent.
	expect.Equal(t, "once there is one", says("m1", "first"), 200)
	expect.Equal(t, "repeated", says("m1", "first"), 200)
	expect.Equal(t, "another", says("m2", "second"), 200)
	worker := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		redis, "TURNSTILE_AGENT=echo", "TURNSTILE_DELIVER=true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + destinations,
	}))
	worker.Output.Await(t, "delivering")
	expect.Soon(t, "two replies", func() bool { return len(chats.messages()) >= 2 })
	expect.Equal(t, "repeated after its end", says("m1", "first"), 200)
	expect.Equal(t, "the third", says("m3", "fail=final"), 200)
	expect.Soon(t, "the end of the third", func() bool { return len(chats.messages()) >= 3 })
	expect.List(t, "what the chat shows", chats.messages(), "7: echo: first", "7: echo: second", "7: This failed.")

	b, now := bot{url: deliveries.target.Load().String() + "/turnstile"}, time.Now()
	expect.Equal(t, "another's signature", b.post(t, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", now, 8, "forged"), 401)
	expect.Equal(t, "an old one", b.post(t, webhookSecret, now.Add(-6*time.Minute), 8, "replayed"), 401)
	expect.Equal(t, "a ping", b.send(t, webhookSecret, now, 0, []byte(`{"type":"ping","data":{}}`)), 204)
}

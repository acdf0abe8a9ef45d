package examples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// platform is an invented chat platform. It keeps the messages that it gets. The chat "gone"
// refuses all.
type platform struct {
	*httptest.Server
	mu    sync.Mutex
	shown []string
}

func newPlatform(t *testing.T) *platform {
	p := &platform{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Chat, Text string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("the platform got %v", err)
		}
		if m.Chat == "gone" {
			http.Error(w, "no such chat", http.StatusForbidden)
			return
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

// wire is the address of a gateway, at which anything may happen.
type wire struct {
	url   string
	serve atomic.Pointer[func(net.Conn)]
	ended <-chan struct{}
}

func newWire(t *testing.T) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	w := &wire{url: "http://" + l.Addr().String(), ended: t.Context().Done()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { <-w.ended; _ = conn.Close() }()
			go func() { defer conn.Close(); (*w.serve.Load())(conn) }()
		}
	}()
	return w
}

func (w *wire) does(serve func(net.Conn)) { w.serve.Store(&serve) }

// to passes connections on.
func (w *wire) to(address string) {
	w.does(func(conn net.Conn) {
		gateway, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer gateway.Close()
		go func() { _, _ = io.Copy(gateway, conn) }()
		_, _ = io.Copy(conn, gateway)
	})
}

// request reads a request, and reports whether one arrived.
func request(conn net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func (w *wire) responds(text string) {
	w.does(func(conn net.Conn) {
		if request(conn) {
			_, _ = io.WriteString(conn, text)
		}
	})
}

// dribbles sends a byte each second.
func (w *wire) dribbles(text string) {
	w.does(func(conn net.Conn) {
		each := time.NewTicker(time.Second)
		defer each.Stop()
		ok := request(conn)
		for i := 0; ok && i < len(text); i++ {
			if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
				return
			}
			select {
			case <-each.C:
			case <-w.ended:
				return
			}
		}
	})
}

// block returns a page's first block of code in a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, code, _ := strings.Cut(page, "```"+language+"\n")
	code, _, whole := strings.Cut(code, "```\n")
	expect.Equal(t, "the page has a block of "+language, whole, true)
	return code
}

// firstBot is the set-up of docs/first-bot.md, with other addresses.
type firstBot struct {
	*testing.T
	running    *program.Process
	chats      *platform
	shows      *relay // in front of the platform
	gateway    *wire
	deliveries *relay
	secret     string
	port       string
	served     string // the address of the gateway
}

func startFirstBot(t *testing.T) *firstBot {
	needPython(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "first-bot.md"))
	expect.OK(t, err)
	b := &firstBot{T: t, chats: newPlatform(t), gateway: newWire(t), deliveries: newRelay(t), shows: newRelay(t)}
	b.gateway.does(func(net.Conn) {})
	b.shows.to(t, b.chats.URL)
	setUp := block(t, string(page), "sh")
	for from, to := range map[string]string{
		"go run ./cmd/worker": program.Build(t, "turnstile/cmd/worker"), "go run ./cmd/gateway": program.Build(t, "turnstile/cmd/gateway"),
		"http://127.0.0.1:8000": b.deliveries.URL, "http://127.0.0.1:9000": b.shows.URL,
		"examples/first-bot/bot.py 8000": example(t, "first-bot", "bot.py") + " 0",
	} {
		if strings.Count(setUp, from) != 1 {
			t.Fatalf("the set-up does not have %s once: %s", from, setUp)
		}
		setUp = strings.Replace(setUp, from, to, 1)
	}
	cmd := program.Command(t, "sh", []string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_GATEWAY_ADDR=127.0.0.1:0", "TURNSTILE_URL=" + b.gateway.url,
	}, "-euc", setUp)
	cmd.Dir, cmd.SysProcAttr = t.TempDir(), &syscall.SysProcAttr{Setpgid: true}
	b.running = program.Start(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // with its background processes
	b.port, _, _ = strings.Cut(b.running.Output.Await(t, "listening on "), "\n")
	b.deliveries.to(t, "http://127.0.0.1:"+b.port)
	line, _, _ := strings.Cut(b.running.Output.Await(t, "serving HTTP"), "\n")
	_, line, _ = strings.Cut(line, "addr=")
	b.served = strings.Fields(line)[0]
	b.running.Output.Await(t, "delivering")
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "my-bot", "destinations.json"))
	expect.OK(t, err)
	var destinations []struct{ Secrets []string }
	expect.OK(t, json.Unmarshal(text, &destinations))
	b.secret = destinations[0].Secrets[0]
	return b
}

// hears has the platform post an event, and returns the status. The platform waits no longer than 3 s.
func (b *firstBot) hears(event map[string]any) int {
	b.Helper()
	body, err := json.Marshal(event)
	expect.OK(b, err)
	client := http.Client{Timeout: 3 * time.Second}
	resp, err := client.Post("http://127.0.0.1:"+b.port+"/platform", "application/json", bytes.NewReader(body))
	if err != nil {
		b.Errorf("the bot does not acknowledge %s: %v", body, err)
		return 0
	}
	expect.OK(b, resp.Body.Close())
	return resp.StatusCode
}

func (b *firstBot) says(id, text string) int {
	b.Helper()
	return b.hears(map[string]any{"id": id, "chat": "7", "user": "ann", "text": text})
}

// The unchanged set-up of docs/first-bot.md, and its bot: it acknowledges before the agent replies,
// and a message that the platform repeats runs once.
func TestFirstBot(t *testing.T) {
	t.Parallel()
	b := startFirstBot(t)
	expect.Equal(t, "without a gateway", b.says("m1", "first"), 503)
	b.gateway.to(b.served)
	expect.Equal(t, "once there is one", b.says("m1", "first"), 200)
	expect.Equal(t, "repeated", b.says("m1", "first"), 200)
	expect.Equal(t, "another", b.says("m2", "second"), 200)
	expect.Soon(t, "two replies", func() bool { return len(b.chats.messages()) >= 2 })
	expect.Equal(t, "repeated after its end", b.says("m1", "first"), 200)
	expect.Equal(t, "the third", b.says("m3", "fail=final"), 200)
	expect.Soon(t, "the end of the third", func() bool { return len(b.chats.messages()) >= 3 })
	expect.Equal(t, "one that takes long", b.says("m4", "sleep=1h"), 200)
	expect.List(t, "what the chat shows", b.chats.messages(), "7: echo: first", "7: echo: second", "7: This failed.")

	d, now := bot{url: "http://127.0.0.1:" + b.port + "/turnstile"}, time.Now()
	expect.Equal(t, "another's signature", d.post(t, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", now, 8, "forged"), 401)
	expect.Equal(t, "an old one", d.post(t, b.secret, now.Add(-6*time.Minute), 8, "replayed"), 401)
	expect.Equal(t, "a ping", d.send(t, b.secret, now, 0, []byte(`{"type":"ping","data":{}}`)), 204)
	for sequence, session := range []string{"room:gone", "web:7"} {
		expect.Equal(t, "a delivery of "+session, d.send(t, b.secret, now, sequence, fmt.Appendf(nil,
			`{"type":"message.done","data":{"session":%q,"messages":["m"],"outcome":{"reply":"hi"}}}`, session)), 422)
	}
	expect.Equal(t, "messages", len(b.chats.messages()), 3)
}

// The talk of docs/first-bot.md, with its platform.
func TestFirstBotsTalk(t *testing.T) {
	t.Parallel()
	b := startFirstBot(t)
	b.gateway.to(b.served)
	cmd := program.Command(t, "python3", nil, example(t, "first-bot", "platform.py"), "0", "http://127.0.0.1:"+b.port+"/platform")
	typed, err := cmd.StdinPipe()
	expect.OK(t, err)
	talk := program.Start(t, cmd)
	address, _, _ := strings.Cut(talk.Output.Await(t, "The chat is at "), "/. Write")
	b.shows.to(t, address[strings.LastIndex(address, "http"):])
	for _, text := range []string{"hello", "again"} {
		_, err = fmt.Fprintln(typed, text)
		expect.OK(t, err)
		talk.Output.Await(t, "bot: echo: "+text+"\n")
	}
}

// Whatever the gateway does, the platform gets a response within 3 s. The response makes it repeat the
// message, unless that can never help.
func TestFirstBotAtABadGateway(t *testing.T) {
	t.Parallel()
	b := startFirstBot(t)
	b.gateway.does(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	expect.Equal(t, "a gateway that hangs", b.says("m1", "one"), 503)
	b.gateway.dribbles("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
	expect.Equal(t, "one that dribbles", b.says("m1", "one"), 503)
	for _, c := range []struct {
		what, response string
		want           int
	}{
		{"garbage", "\x00\x01\x02\r\n\r\n", 503},
		{"half a response", "HTTP/1.1 20", 503},
		{"no response", "", 503},
		{"elsewhere", "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", 503},
		{"an unknown token", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", 503},
		{"too many requests", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", 503},
		{"a refusal", "HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 7\r\n\r\nno such", 200},
	} {
		b.gateway.responds(c.response)
		expect.Equal(t, c.what, b.says("m1", "one"), c.want)
	}
	b.running.Output.Await(t, "message 'm1' is dropped: 422 no such\n")

	b.gateway.to(b.served)
	expect.Equal(t, "someone joins", b.hears(map[string]any{"id": "e1", "chat": "7", "user": "bob", "joined": true}), 200)
	expect.Equal(t, "a chat that is no session", b.hears(map[string]any{"id": "m2", "chat": "no session", "user": "ann", "text": "two"}), 200)
	b.running.Output.Await(t, "message 'm2' is dropped: 400 ")
	expect.Equal(t, "the message", b.says("m1", "one"), 200)
	expect.Soon(t, "its reply", func() bool { return len(b.chats.messages()) > 0 })
	expect.List(t, "what the chat shows", b.chats.messages(), "7: echo: one")
}

package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// written is an agent's stdin.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) Close() error { return nil }

// told are the effects of an agent's messages on a turn.
type told struct {
	events   []agent.Event
	ending   *ending
	died     string
	requests int // of the agent, and how many of them have a response
	replies  int
}

// listen reads an agent's output as a turn does that has prompted it, and sends the turn the agent's
// requests, all of which it denies.
func listen(t *testing.T, r io.Reader) (got told) {
	t.Helper()
	in, logger := &written{}, slog.New(slog.DiscardHandler)
	w := &warm{process: &process{config: Config{Permissions: Deny}, logger: logger}, state: state{Agent: "acp", ID: "s1"}}
	tn := &turn{warm: w, logger: logger, ended: make(chan ending, 1)}
	tn.emit = func(e agent.Event) {
		if n := len(got.events) - 1; n >= 0 && got.events[n].Type == e.Type && e.Type == session.EventText {
			got.events[n].Text += e.Text
			return
		}
		got.events = append(got.events, e)
	}
	tn.tools.emit = tn.emitEvent
	tn.begin(context.Background())
	w.turn.Store(tn)
	w.conn = newConn(in, counting{w, &got.requests}, logger)
	w.conn.request("session/prompt", struct{}{}, tn.promptEnded)
	w.conn.read(r)
	tn.requests.end()
	tn.locked(func() { tn.tools.end("over") })
	w.conn.writer.Wait()
	if w.conn.cause != nil {
		got.died = w.conn.cause.Error()
	}
	select {
	case e := <-tn.ended:
		got.ending = &e
	default:
	}
	for line := range bytes.Lines(in.text.Bytes()) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
			t.Errorf("the agent gets %q", line)
		}
		if m.Method == "" {
			got.replies++
		}
	}
	return got
}

// counting counts the agent's requests.
type counting struct {
	peer
	n *int
}

func (c counting) requested(id json.RawMessage, method string, params json.RawMessage) {
	*c.n++
	c.peer.requested(id, method, params)
}

// An agent's messages mean the same however they arrive.
// Every request gets one response, every tool that began has one end, and all events can be stored.
func FuzzMessages(f *testing.F) {
	update := func(u string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":` + u + `}}` + "\n"
	}
	f.Add(update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}`) +
		update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"ls","kind":"read","status":"pending","rawInput":{"a":1}}`) +
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"b"}}`) +
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"x"}}]}`) +
		`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":{"inputTokens":1}}}`)
	f.Add(update(`{"sessionUpdate":"usage_update","used":-1,"size":1e30,"cost":{"amount":1e308,"currency":"USD"}}`) +
		update(`{"sessionUpdate":"session_info_update","title":"t"}`) + update(`5`) + "banner \xff\n" + `{"id":1,"error":"no"}`)
	f.Add(`{"id":"a","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"1","title":"rm"},"options":[{"optionId":"n","kind":"reject_once","name":"No"}]}}` + "\n" +
		`{"id":null,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}` + "\n" + `{"id":"a","method":"$/cancel_request"}` + "\n" +
		`{"method":"$/cancel_request","params":{"requestId":"a"}}`)
	f.Add(`{"id":"id \ud800","method":"terminal/create","params":null}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{"stopReason":"refusal"}}` + "\n" + `{"id":1,"result":{}}`)
	f.Add(update(`{"sessionUpdate":"agent_message_chunk","sessionUpdate":"tool_call","toolCallId":"1","status":"weird","content":{"type":"text","text":"a"}}`))
	f.Fuzz(func(t *testing.T, text string) {
		got := listen(t, strings.NewReader(text))
		if got.requests != got.replies {
			t.Errorf("%d requests, %d responses", got.requests, got.replies)
		}
		open := map[string]int{}
		for _, e := range got.events {
			if _, err := json.Marshal(e); err != nil {
				t.Errorf("%+v cannot be stored: %v", e, err)
			}
			switch e.Type {
			case session.EventToolStart:
				if open[e.CallID]++; e.Name == "" || e.CallID == "" || open[e.CallID] > 1 {
					t.Errorf("%+v, %d of it", e, open[e.CallID])
				}
			case session.EventToolEnd:
				if open[e.CallID]--; (e.Error == "") == (e.Output == nil) || open[e.CallID] < 0 {
					t.Errorf("%+v, %d of it", e, open[e.CallID])
				}
			}
		}
		for id, n := range open {
			if n != 0 {
				t.Errorf("the tool %q has no end", id)
			}
		}
		if strings.Contains(got.died, "panic") {
			t.Errorf("%s", got.died)
		}
		if got.requests > 1 { // these are served at once, so their effects come in any order
			return
		}
		if split := listen(t, iotest.OneByteReader(strings.NewReader(text))); !reflect.DeepEqual(split, got) {
			t.Errorf("at once %+v, byte by byte %+v", got, split)
		}
	})
}

// Tools that an agent announces and never begins are bounded, because its worker keeps them.
func TestEndlessTools(t *testing.T) {
	t.Parallel()
	for n, size := range map[int]int{maxOpen + 1: 1, 17: 4 << 20} {
		t.Run(fmt.Sprintf("%d of %d bytes", n, size), func(t *testing.T) {
			t.Parallel()
			r, w := io.Pipe()
			go func() {
				for i := range n {
					_, err := fmt.Fprintf(w, `{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"%d","status":"pending","rawInput":"%s"}}}`+"\n",
						i, strings.Repeat("x", size))
					if err != nil {
						return
					}
				}
				_ = w.Close()
			}()
			got := listen(t, r)
			_ = r.Close()
			if got.died != errTools.Error() {
				t.Errorf("it died of %q", got.died)
			}
		})
	}
}

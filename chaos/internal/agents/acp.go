package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"turnstile/test/history"
)

// recapEnd ends the recap of earlier turns that an ACP agent gets.
const recapEnd = "What follows is new.]"

type acpMessage struct {
	ID     any
	Method string
	Params struct {
		SessionID string
		Prompt    []struct{ Text string }
	}
}

// ACP is a warm agent over stdio. It returns when its stdin ends.
func ACP(dir string) int {
	r, err := newRecorder(dir, "acp")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	requests, cancels := make(chan acpMessage), make(chan struct{}, 1)
	go func() {
		defer close(requests)
		in := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var m acpMessage
			switch {
			case json.Unmarshal(line, &m) != nil:
			case m.Method == "session/cancel":
				select {
				case cancels <- struct{}{}:
				default:
				}
			case m.ID != nil && m.Method != "":
				requests <- m
			}
		}
	}()
	sessions := 0
	for m := range requests {
		result := object{}
		switch m.Method {
		case "initialize":
			result = object{"protocolVersion": 1, "agentCapabilities": object{}}
		case "session/new":
			sessions++
			result = object{"sessionId": fmt.Sprintf("s%d-%d", os.Getpid(), sessions)}
		case "session/prompt":
			select {
			case <-cancels: // of the prompt before
			default:
			}
			if result = r.prompt(m, cancels); result == nil {
				say(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": -32603, "message": history.ToldToFail}})
				continue
			}
		}
		say(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
	}
	return 0
}

// prompt is one turn. It returns nil if the turn fails.
func (r *recorder) prompt(m acpMessage, cancels <-chan struct{}) object {
	text := m.Params.Prompt[0].Text
	if i := strings.LastIndex(text, recapEnd); i >= 0 {
		text = text[i:]
	}
	plans := Plans(text)
	if len(plans) == 0 {
		return nil
	}
	rec := history.Record{Session: plans[0].Session, Since: time.Now().UnixNano(), Turn: os.Getenv("TURNSTILE_TURN_ID")}
	for _, p := range plans {
		rec.IDs = append(rec.IDs, p.ID)
	}
	t, err := r.begin(rec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return nil
	}
	chunk := func(text string) {
		say(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": m.Params.SessionID, "update": object{
			"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text},
		}}})
	}
	for _, p := range plans {
		for n := range pieces {
			chunk(history.Piece(p.ID, n))
			select {
			case <-cancels:
				t.end("cancelled")
				return object{"stopReason": "cancelled"}
			case <-time.After(p.Work / pieces):
			}
		}
		switch p.End {
		case history.EndDie:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case history.EndPoison:
			t.poison()
		case history.EndFail:
			t.end(p.End)
			return nil
		}
	}
	chunk(history.Reply(rec.IDs))
	t.end(history.EndOK)
	return object{"stopReason": "end_turn"}
}

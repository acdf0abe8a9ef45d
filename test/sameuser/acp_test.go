//go:build linux

package sameuser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"turnstile/test/actors"

	"turnstile"
)

type object = map[string]any

// warm is an agent that speaks ACP and lives between turns. It replies with its pid, and with the
// result of opening the stdin of a given pid.
func warm([]string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     any
			Method string
			Params struct{ Prompt []struct{ Text string } }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		send := func(v object) {
			v["jsonrpc"] = "2.0"
			line, _ := json.Marshal(v)
			fmt.Println(string(line))
		}
		result := object{}
		switch m.Method {
		case "initialize":
			result = object{"protocolVersion": 1, "agentCapabilities": object{}}
		case "session/new":
			result = object{"sessionId": "s"}
		case "session/prompt":
			said := fmt.Sprint(os.Getpid())
			if other, found := strings.CutPrefix(m.Params.Prompt[len(m.Params.Prompt)-1].Text, "write to "); found {
				_, err := os.OpenFile("/proc/"+other+"/fd/0", os.O_WRONLY, 0)
				said = fmt.Sprint(err)
			}
			send(object{"method": "session/update", "params": object{"sessionId": "s", "update": object{
				"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": said},
			}}})
			result = object{"stopReason": "end_turn"}
		}
		send(object{"id": m.ID, "result": result})
	}
}

// A warm agent trusts every line on its stdin, so an agent of another session must not be able to
// open it.
func TestWarmAgentsStdinCannotBeOpened(t *testing.T) {
	t.Parallel()
	r := newRig(t, "warm", "TURNSTILE_AGENT=acp", "TURNSTILE_CONCURRENCY=2")
	pid := r.says("hello", ignore).Reply
	const key = "another"
	receipt, err := r.client.Session(key).Send(r.ctx, turnstile.Message{Text: "write to " + pid})
	if err != nil {
		t.Fatal(err)
	}
	end, err := actors.Follow(r.ctx, r.client.Session(key), receipt.ID, ignore)
	if err != nil || !strings.HasSuffix(end.Reply, "no such device or address") {
		t.Errorf("the other session's agent, %s, was opened: %q (%s), %v", pid, end.Reply, end.Why(), err)
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/test/hostile"
)

// played are the programs that the test binary can play for an agent, by its first argument.
var played = map[string]func(args []string){"read-a-page": readAPage, "speak-hostilely": speakHostilely}

func init() {
	if len(os.Args) > 1 && played[os.Args[1]] != nil {
		played[os.Args[1]](os.Args[2:])
		os.Exit(0)
	}
}

// playing is a setting for an agent's command.
func playing(t *testing.T, program string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "TURNSTILE_AGENT_COMMAND=" + strings.Join(append([]string{self, program}, args...), " ")
}

// readAPage prints the response of a page.
func readAPage(args []string) {
	response, err := http.Get(args[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, strings.Contains(string(body), "asynqmon") || strings.Contains(string(body), `"queues"`))
}

// speakHostilely plays an agent of the format jsonl that writes only hostile text. The message
// decides how the turn ends: ask waits for a decision, fail fails.
func speakHostilely([]string) {
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadBytes('\n')
	var turn agent.Turn
	_ = json.Unmarshal(line, &turn) // without a text if it fails
	words := hostile.Text
	say := func(event map[string]any) {
		line, _ := json.Marshal(event)
		fmt.Println(string(line))
	}
	say(map[string]any{"type": "thought", "text": words + "\n"})
	say(map[string]any{"type": "text", "text": words})
	say(map[string]any{"type": "tool_start", "name": words, "call_id": words, "input": map[string]any{words: words, "b": words}})
	say(map[string]any{"type": "tool_end", "call_id": words, "error": words})
	say(map[string]any{"type": "tool_start", "name": "t", "call_id": "2", "input": words})
	say(map[string]any{"type": "tool_end", "call_id": "2", "output": words})
	say(map[string]any{"type": "notice", "text": words})
	say(map[string]any{"type": "title", "text": words})
	say(map[string]any{"type": "raw", "name": words, "data": words})
	say(map[string]any{"type": "usage", "usage": map[string]any{"input_tokens": 1, "model": words}})
	fmt.Fprintln(os.Stderr, hostile.Words)
	switch {
	case strings.Contains(turn.Text(), "please ask"):
		say(map[string]any{"type": "ask", "id": "1", "name": words, "text": words, "call_id": words, "input": words})
		_, _ = in.ReadString('\n')
	case strings.Contains(turn.Text(), "please fail"):
		say(map[string]any{"type": "error", "message": words})
		return
	}
	say(map[string]any{"type": "result", "text": words})
}

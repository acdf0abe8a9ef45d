package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// piece is one piece of a talkative agent's reply.
const piece = "the next few words "

// say carries out a prompt: "talk N PAUSE", "silent DURATION", or "first PAUSE", after which it
// emits the time of its first piece.
func say(prompt string, text func(string)) {
	words := append(strings.Fields(prompt), "", "", "")
	pause := func(word string) time.Duration {
		d, err := time.ParseDuration(word)
		if err != nil {
			panic(err)
		}
		return d
	}
	switch words[0] {
	case "talk":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			panic(err)
		}
		tick := time.NewTicker(pause(words[2]))
		defer tick.Stop()
		for range n {
			<-tick.C
			text(piece)
		}
	case "silent":
		time.Sleep(pause(words[1]))
		text("done")
	case "first":
		time.Sleep(pause(words[1]))
		text(fmt.Sprintf("%d.", time.Now().UnixNano()))
	default:
		text("hello")
	}
}

type object = map[string]any

func send(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// speak runs an agent's process, if the arguments have speak=PROTOCOL.
func speak(args []string) bool {
	for _, arg := range args {
		if protocol, ok := strings.CutPrefix(arg, "speak="); ok {
			protocols[protocol]()
			return true
		}
	}
	return false
}

var protocols = map[string]func(){
	"text": func() {
		prompt, _ := io.ReadAll(os.Stdin)
		say(string(prompt), func(text string) { _, _ = os.Stdout.WriteString(text) })
	},
	"jsonl": func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		var turn struct{ Messages []struct{ Text string } }
		_ = json.Unmarshal([]byte(line), &turn)
		say(turn.Messages[0].Text, func(text string) { send(object{"type": "text", "text": text}) })
	},
	"claude": func() {
		prompt, _ := io.ReadAll(os.Stdin)
		send(object{"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
		send(object{"type": "stream_event", "event": object{"type": "message_start", "message": object{"id": "m1"}}})
		whole := ""
		say(string(prompt), func(text string) {
			whole += text
			// The type comes first, as the program itself writes it.
			send(struct {
				Type  string `json:"type"`
				Event object `json:"event"`
			}{"stream_event", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": text}}})
		})
		send(object{"type": "result", "subtype": "success", "is_error": false, "result": whole, "session_id": "s"})
	},
	"acp": func() {
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var m struct {
				ID     any
				Method string
				Params struct{ Prompt []struct{ Text string } }
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil {
				continue
			}
			result := object{}
			switch m.Method {
			case "initialize":
				result = object{"protocolVersion": 1, "agentCapabilities": object{}}
			case "session/new":
				result = object{"sessionId": "s"}
			case "session/prompt":
				say(m.Params.Prompt[len(m.Params.Prompt)-1].Text, func(text string) {
					send(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": "s", "update": object{
						"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text},
					}}})
				})
				result = object{"stopReason": "end_turn"}
			}
			send(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
		}
	},
}

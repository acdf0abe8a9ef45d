package adapters

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The texts of the agents. Between them is the prompt that they received.
const (
	begun  = "I begin"
	ending = "I was given: "
)

// part is one run of an agent's program. It records in a directory the processes that it finds and
// leaves.
type part struct {
	dir   string
	first bool // the run that is interrupted
}

// enter records which processes of an earlier run are still alive, then its own process and a child
// that has left its session.
func enter(dir string) *part {
	signal.Ignore(syscall.SIGINT)
	p := &part{dir: dir}
	pids, err := os.ReadFile(filepath.Join(dir, "pids"))
	p.first = err != nil
	for _, pid := range strings.Fields(string(pids)) {
		n, _ := strconv.Atoi(pid)
		if alive(n) {
			p.note("alive", pid)
		}
	}
	child := exec.Command("sleep", "1000")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		p.note("trouble", err.Error())
	}
	p.note("pids", fmt.Sprint(os.Getpid(), " ", child.Process.Pid))
	return p
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func (p *part) note(file, text string) {
	f, err := os.OpenFile(filepath.Join(p.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, text)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
}

// hang waits to be killed.
func hang() { time.Sleep(time.Hour) }

func send(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

type object = map[string]any

// roles are the agents' programs: this test's binary, started with a role's name and the directory.
var roles = map[string]func(dir string){
	"text": func(dir string) {
		prompt, _ := io.ReadAll(os.Stdin)
		if p := enter(dir); p.first {
			fmt.Print(begun)
			hang()
		}
		fmt.Print(ending, string(prompt))
	},
	"jsonl": func(dir string) {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		var turn struct {
			Note  string
			State json.RawMessage
		}
		_ = json.Unmarshal([]byte(line), &turn)
		if p := enter(dir); p.first {
			send(object{"type": "state", "data": object{"id": "mine"}})
			send(object{"type": "text", "text": begun})
			hang()
		}
		send(object{"type": "result", "text": ending + turn.Note + string(turn.State)})
	},
	"claude": func(dir string) {
		prompt, _ := io.ReadAll(os.Stdin)
		p := enter(dir)
		send(object{"type": "system", "subtype": "init", "session_id": "c0ffee", "model": "m"})
		say := func(text string) {
			send(object{"type": "assistant", "message": object{"id": "msg", "content": []object{{"type": "text", "text": text}}}, "session_id": "c0ffee"})
		}
		if p.first {
			say(begun)
			hang()
		}
		text := ending + string(prompt) + strings.Join(os.Args, " ")
		say(text)
		send(object{"type": "result", "subtype": "success", "is_error": false, "result": text, "session_id": "c0ffee"})
	},
	"codex": func(dir string) {
		prompt, _ := io.ReadAll(os.Stdin)
		p := enter(dir)
		send(object{"type": "thread.started", "thread_id": "c0ffee"})
		say := func(text string) {
			send(object{"type": "item.completed", "item": object{"id": "item_0", "type": "agent_message", "text": text}})
		}
		if p.first {
			say(begun)
			hang()
		}
		say(ending + string(prompt) + strings.Join(os.Args, " "))
		send(object{"type": "turn.completed", "usage": object{"input_tokens": 1, "output_tokens": 1}})
	},
	"gemini": func(dir string) {
		prompt, _ := io.ReadAll(os.Stdin)
		p := enter(dir)
		send(object{"type": "init", "session_id": "c0ffee", "model": "m"})
		say := func(text string) {
			send(object{"type": "message", "role": "assistant", "content": text, "delta": true})
		}
		if p.first {
			say(begun)
			hang()
		}
		say(ending + string(prompt) + strings.Join(os.Args, " "))
		send(object{"type": "result", "status": "success", "stats": object{"total_tokens": 2}})
	},
	"acp": func(dir string) {
		p := enter(dir)
		in := bufio.NewReader(os.Stdin)
		resumed := ""
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				hang() // it ignores even the end of its stdin
			}
			var m struct {
				ID     any
				Method string
				Params struct {
					SessionID string
					Prompt    []struct{ Text string }
				}
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil {
				continue
			}
			answer := func(result object) { send(object{"jsonrpc": "2.0", "id": m.ID, "result": result}) }
			switch m.Method {
			case "initialize":
				answer(object{"protocolVersion": 1, "agentCapabilities": object{"sessionCapabilities": object{"resume": object{}}}})
			case "session/new":
				answer(object{"sessionId": "c0ffee"})
			case "session/resume":
				resumed = " resumed " + m.Params.SessionID
				answer(object{})
			case "session/prompt":
				say := func(text string) {
					send(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": "c0ffee", "update": object{
						"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text},
					}}})
				}
				if p.first {
					say(begun)
					hang()
				}
				say(ending + m.Params.Prompt[len(m.Params.Prompt)-1].Text + resumed)
				answer(object{"stopReason": "end_turn"})
			default:
				answer(object{})
			}
		}
	},
	"asking jsonl": func(string) {
		in := bufio.NewReader(os.Stdin)
		_, _ = in.ReadString('\n')
		send(object{"type": "ask", "id": "q", "name": "deploy"})
		line, _ := in.ReadString('\n')
		var answer struct{ Allowed, Remember bool }
		_ = json.Unmarshal([]byte(line), &answer)
		send(object{"type": "result", "text": fmt.Sprint(answer.Allowed, " ", answer.Remember)})
	},
	"asking acp": func(string) {
		in := bufio.NewReader(os.Stdin)
		var prompt any
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var m struct {
				ID     any
				Method string
				Result struct {
					Outcome struct{ Outcome, OptionID string }
				}
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil {
				continue
			}
			answer := func(id any, result object) { send(object{"jsonrpc": "2.0", "id": id, "result": result}) }
			switch {
			case m.Method == "initialize":
				answer(m.ID, object{"protocolVersion": 1})
			case m.Method == "session/new":
				answer(m.ID, object{"sessionId": "s"})
			case m.Method == "session/prompt":
				prompt = m.ID
				send(object{"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": object{
					"sessionId": "s", "toolCall": object{"toolCallId": "c1", "title": "deploy"},
					"options": []object{
						{"optionId": "once", "name": "Yes", "kind": "allow_once"},
						{"optionId": "always", "name": "Always", "kind": "allow_always"},
						{"optionId": "no", "name": "No", "kind": "reject_once"},
					},
				}})
			case m.Method == "" && m.ID == "q":
				o := m.Result.Outcome
				send(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": "s", "update": object{
					"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": o.Outcome + " " + o.OptionID},
				}}})
				answer(prompt, object{"stopReason": "end_turn"})
			default:
				answer(m.ID, object{})
			}
		}
	},
	"mcp": func(dir string) { // the model's server of tools
		p := enter(dir)
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				hang()
			}
			var m struct {
				ID     any
				Method string
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil {
				continue
			}
			result := object{}
			switch m.Method {
			case "initialize":
				result = object{"protocolVersion": "2025-11-25", "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "s", "version": "1"}}
			case "tools/list":
				result = object{"tools": []object{{"name": "work", "inputSchema": object{"type": "object"}, "annotations": object{"idempotentHint": true}}}}
			case "tools/call":
				if p.first {
					hang()
				}
				result = object{"content": []object{{"type": "text", "text": "the tool's output"}}}
			}
			send(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
		}
	},
	"tool": func(dir string) { // the model's tool
		if p := enter(dir); p.first {
			hang()
		}
		fmt.Print("the tool's output")
	},
}

// playsRole runs a role if the program was started for one.
func playsRole() bool {
	for i, arg := range os.Args {
		if name, ok := strings.CutPrefix(arg, "role="); ok && i+1 < len(os.Args) {
			roles[name](os.Args[i+1])
			return true
		}
	}
	return false
}

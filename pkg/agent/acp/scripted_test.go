package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// actor is an agent that carries out its prompts line by line. Its arguments set its abilities, and
// how it fails before the first prompt.
type actor struct {
	args    []string
	in      chan map[string]any
	log     *os.File
	session string
	count   int // of sessions
	asked   int
	kept    []map[string]any // messages that came while it waited for others
}

func (a *actor) is(arg string) bool { return slices.Contains(a.args, arg) }

// arg is the value of name=value.
func (a *actor) arg(name string) string {
	for _, arg := range a.args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}

func scripted(args []string) int {
	a := &actor{args: args, in: make(chan map[string]any)}
	if path := a.arg("log"); path != "" {
		a.log, _ = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
	if a.is("deaf") {
		signal.Ignore(syscall.SIGINT)
	}
	if a.is("banner") {
		fmt.Println("Welcome!\n\n{not json}\nnull\n[]\n{}")
	}
	go func() {
		defer close(a.in)
		lines := bufio.NewReader(os.Stdin)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var m map[string]any
			if json.Unmarshal(line, &m) != nil {
				panic(string(line))
			}
			if method, ok := m["method"]; ok && a.log != nil {
				params, _ := json.Marshal(m["params"])
				fmt.Fprintf(a.log, "%d %s %s\n", os.Getpid(), method, params)
			}
			a.in <- m
		}
	}()
	for {
		m, ok := a.next()
		if !ok {
			if a.is("deaf") {
				time.Sleep(time.Hour)
			}
			return 0
		}
		if code := a.take(m); code >= 0 {
			return code
		}
	}
}

func (a *actor) next() (map[string]any, bool) {
	if len(a.kept) > 0 {
		m := a.kept[0]
		a.kept = a.kept[1:]
		return m, true
	}
	m, ok := <-a.in
	return m, ok
}

func (a *actor) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	line, _ := json.Marshal(m)
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func (a *actor) update(u any) {
	a.send(map[string]any{"method": "session/update", "params": map[string]any{"sessionId": a.session, "update": u}})
}

func (a *actor) text(kind, text string) {
	a.update(map[string]any{"sessionUpdate": kind, "content": map[string]any{"type": "text", "text": text}})
}

func (a *actor) open(id any, name string) int {
	if fail := a.arg(name); fail != "" {
		switch fail {
		case "hang":
			fmt.Fprintln(os.Stderr, "still waiting")
			return -1
		case "silent":
			fmt.Fprintln(os.Stderr, "still waiting")
			return 0
		case "die":
			fmt.Fprintln(os.Stderr, "no licence")
			return 3
		}
		code, _ := strconv.Atoi(fail)
		a.send(map[string]any{"id": id, "error": map[string]any{"code": code, "message": "no", "data": map[string]any{"details": "the disk is full"}}})
		return -1
	}
	switch name {
	case "initialize":
		caps, sessions := map[string]any{}, map[string]any{}
		if a.is("can-load") {
			caps["loadSession"] = true
		}
		if a.is("can-see") {
			caps["promptCapabilities"] = map[string]any{"image": true}
		}
		caps["mcpCapabilities"] = map[string]any{"http": a.is("can-http"), "sse": a.is("can-sse")}
		for _, can := range []string{"resume", "close"} {
			if a.is("can-" + can) {
				sessions[can] = map[string]any{}
			}
		}
		caps["sessionCapabilities"] = sessions
		version := 1
		if a.is("v2") {
			version = 2
		}
		a.send(map[string]any{"id": id, "result": map[string]any{
			"protocolVersion": version, "agentCapabilities": caps, "agentInfo": map[string]any{"name": a.arg("name")}, "authMethods": []any{map[string]any{"id": "x", "name": "Log in with X", "type": "odd"}},
		}})
	case "new":
		a.count++
		a.session = fmt.Sprintf("s%d-%d", os.Getpid(), a.count)
		a.send(map[string]any{"id": id, "result": a.opened(map[string]any{"sessionId": a.session, "configOptions": []any{map[string]any{"type": "unheard of"}}})})
	case "load":
		a.text("user_message_chunk", "replayed")
		a.text("agent_message_chunk", "replayed")
		fallthrough
	default:
		a.send(map[string]any{"id": id, "result": a.opened(map[string]any{})})
	}
	return -1
}

// opened is what it says of a session, with what its arguments add.
func (a *actor) opened(result map[string]any) map[string]any {
	if more := a.arg("opened"); more != "" && json.Unmarshal([]byte(more), &result) != nil {
		panic(more)
	}
	return result
}

func (a *actor) take(m map[string]any) int {
	id := m["id"]
	params, _ := m["params"].(map[string]any)
	switch m["method"] {
	case "initialize":
		return a.open(id, "initialize")
	case "session/new":
		return a.open(id, "new")
	case "session/load", "session/resume":
		a.session = params["sessionId"].(string)
		return a.open(id, strings.TrimPrefix(m["method"].(string), "session/"))
	case "session/set_config_option", "session/set_mode", "session/set_model":
		if set := a.arg("set"); set != "" {
			a.send(map[string]any{"id": id, "result": json.RawMessage(set)})
			return -1
		}
		a.send(map[string]any{"id": id, "error": map[string]any{"code": codeInvalidParams, "message": "no such choice"}})
	case "session/close":
		a.send(map[string]any{"id": id, "result": map[string]any{}})
	case "session/prompt":
		text := params["prompt"].([]any)[0].(map[string]any)["text"].(string)
		if a.is("echo") {
			a.text("agent_message_chunk", text)
			a.send(map[string]any{"id": id, "result": map[string]any{"stopReason": "end_turn"}})
			return -1
		}
		if _, after, told := strings.Cut(text, "What follows is new.]\n\n"); told {
			text = after
			if a.is("recount") {
				a.text("agent_message_chunk", "recap ")
			}
		}
		for _, line := range strings.Split(text, "\n") {
			verb, rest, _ := strings.Cut(line, " ")
			if code, done := a.do(id, verb, rest); done {
				return code
			}
		}
		a.send(map[string]any{"id": id, "result": map[string]any{"stopReason": "end_turn"}})
	default:
		if id != nil && m["method"] != nil && !a.is("mute") {
			a.send(map[string]any{"id": id, "error": map[string]any{"code": codeNoMethod, "message": "no such method"}})
		}
	}
	return -1
}

// do carries out one line of a prompt. done: the turn is over, or with a code of at least 0 the
// agent.
func (a *actor) do(id any, verb, rest string) (code int, done bool) {
	switch verb {
	case "text":
		a.text("agent_message_chunk", rest)
	case "thought":
		a.text("agent_thought_chunk", rest)
	case "update":
		a.update(json.RawMessage(rest))
	case "raw":
		fmt.Println(rest)
	case "bytes": // a text, quoted as in Go
		text, _ := strconv.Unquote(`"` + rest + `"`)
		fmt.Printf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}`+"\n", a.session, text)
	case "long": // a text of that many bytes
		n, _ := strconv.Atoi(rest)
		a.text("agent_message_chunk", strings.Repeat("x", n))
	case "long-tool": // with an output of that many bytes
		n, _ := strconv.Atoi(rest)
		a.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "long", "title": "cat", "rawOutput": strings.Repeat("x", n), "status": "completed"})
	case "many":
		n, _ := strconv.Atoi(rest)
		for range n {
			a.text("agent_message_chunk", ".")
		}
	case "yes": // without end
		for {
			a.text("agent_message_chunk", strings.Repeat("la ", 10_000))
		}
	case "babble": // STREAM FILE: without end, until SIGINT; then the file gets the number of bytes
		stream, path, _ := strings.Cut(rest, " ")
		babble(stream, path)
	case "tools":
		for i := 0; ; i++ {
			a.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": strconv.Itoa(i), "status": "completed", "rawOutput": strings.Repeat("la ", 100_000)})
		}
	case "pause": // for longer than the client waits for silence
		time.Sleep(3 * silence)
	case "stderr":
		fmt.Fprintln(os.Stderr, rest)
	case "pid":
		a.text("agent_message_chunk", strconv.Itoa(os.Getpid()))
	case "env":
		a.text("agent_message_chunk", strings.Join(os.Environ(), "\n"))
	case "ask", "call", "quietly": // METHOD PARAMS, and the response as text; ask does not wait, quietly says nothing
		method, params, _ := strings.Cut(rest, " ")
		params = strings.ReplaceAll(params, "SESSION", a.session)
		a.asked++
		a.send(map[string]any{"id": a.asked, "method": method, "params": json.RawMessage(params)})
		if verb != "ask" {
			a.await(verb == "call")
		}
	case "answers": // to the open requests
		n, _ := strconv.Atoi(rest)
		for range n {
			a.await(true)
		}
	case "cancelled": // wait for session/cancel
		for {
			m, ok := <-a.in
			if !ok {
				return 0, true
			}
			if m["method"] == "session/cancel" {
				break
			}
			a.kept = append(a.kept, m)
		}
	case "done": // the turn ends before the rest of the lines
		a.send(map[string]any{"id": id, "result": map[string]any{"stopReason": "end_turn"}})
	case "end":
		a.send(map[string]any{"id": id, "result": map[string]any{"stopReason": rest}})
		return -1, true
	case "result":
		a.send(map[string]any{"id": id, "result": json.RawMessage(rest)})
		return -1, true
	case "error":
		a.send(map[string]any{"id": id, "error": json.RawMessage(rest)})
		return -1, true
	case "exit":
		code, _ := strconv.Atoi(rest)
		return code, true
	case "close-stdout":
		_ = os.Stdout.Close()
		time.Sleep(time.Hour)
	case "hang":
		time.Sleep(time.Hour)
	default:
		panic("verb " + verb)
	}
	return -1, false
}

// await waits for the response to a request, and writes it as text if aloud.
func (a *actor) await(aloud bool) {
	isAnswer := func(m map[string]any) bool { return m["method"] == nil }
	for !slices.ContainsFunc(a.kept, isAnswer) {
		m, ok := <-a.in
		if !ok {
			panic("stdin ended")
		}
		a.kept = append(a.kept, m)
	}
	i := slices.IndexFunc(a.kept, isAnswer)
	m := a.kept[i]
	a.kept = slices.Delete(a.kept, i, i+1)
	if !aloud {
		return
	}
	delete(m, "jsonrpc")
	delete(m, "id")
	line, _ := json.Marshal(m)
	a.text("agent_message_chunk", string(line)+"\n")
}

// babble writes to stdout or stderr without end. At SIGINT it writes to a file how many bytes the
// other side has taken.
func babble(stream, path string) {
	out := map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr}[stream]
	line := []byte(`{"jsonrpc":"2.0","method":"_vendor/news","params":{"text":"la la la"}}` + "\n")
	var written atomic.Int64
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT)
	go func() {
		<-told
		if os.WriteFile(path+".part", []byte(strconv.FormatInt(written.Load(), 10)), 0o600) == nil {
			_ = os.Rename(path+".part", path)
		}
		syscall.Exit(0)
	}()
	for {
		n, _ := out.Write(line)
		written.Add(int64(n))
	}
}

package modelserver

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

type object map[string]any

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // objects of strings and numbers
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// writer writes one response.
type writer struct {
	http.ResponseWriter
	request *http.Request
	asked   Request
	done    <-chan struct{} // the server is closing
	sent    bool            // a part of the body was sent
	message *messageWriter  // nil: the request is of Chat Completions

	// The text so far. A client that requested no stream receives it at the end.
	text   map[string]string
	calls  []object
	usage  object
	finish string
}

func (a Response) write(rw http.ResponseWriter, hr *http.Request, asked Request, done <-chan struct{}) {
	w := &writer{ResponseWriter: rw, request: hr, asked: asked, done: done, text: map[string]string{}}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	switch {
	case a.body != nil:
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
		return
	case a.status != 0 && asked.messages:
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		w.message = &messageWriter{writer: w}
		for _, step := range a.steps {
			if step.kind == kindUsage {
				w.usage = step.usage // the first event has it
			}
		}
		w.message.start()
	case a.status != 0 && asked.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.chunk(object{"role": "assistant", "content": ""}, nil)
	}
	for _, step := range a.steps {
		if !w.step(step) {
			return
		}
	}
	w.end()
}

// step does one step. It returns false if nothing more may be sent.
func (w *writer) step(s Step) bool {
	switch s.kind {
	case kindDelta:
		for _, piece := range s.pieces {
			if w.message != nil {
				w.message.piece(s.field, piece)
				continue
			}
			w.text[s.field] += piece
			w.chunk(object{s.field: piece}, nil)
		}
	case kindCall:
		w.call(s)
	case kindUsage:
		w.usage = s.usage
	case kindFinish:
		w.finish = s.name
	case kindRaw:
		w.send(s.pieces[0])
	case kindWait:
		return w.wait(s.wait)
	case kindDo:
		s.do()
	case kindCut:
		w.cut()
		return false
	case kindHang:
		w.wait(nil)
		return false
	}
	return true
}

// wait returns true when the gate opens, and false when the client or the server is gone.
func (w *writer) wait(gate <-chan struct{}) bool {
	select {
	case <-gate:
		return true
	case <-w.request.Context().Done():
	case <-w.done:
	}
	return false
}

func (w *writer) cut() {
	conn, _, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && !w.sent {
		_ = tcp.SetLinger(0) // a reset could overtake a chunk that was just sent
	}
	_ = conn.Close()
}

func (w *writer) call(s Step) {
	index := len(w.calls)
	first := object{"index": index, "type": "function", "function": object{"name": s.name, "arguments": ""}}
	whole := object{"type": "function", "function": object{"name": s.name, "arguments": strings.Join(s.pieces, "")}}
	if s.id != "" {
		first["id"], whole["id"] = s.id, s.id
	}
	w.calls = append(w.calls, whole)
	if w.message != nil {
		w.message.call(s)
		return
	}
	w.chunk(object{"tool_calls": []object{first}}, nil)
	for _, piece := range s.pieces {
		w.chunk(object{"tool_calls": []object{{"index": index, "function": object{"arguments": piece}}}}, nil)
	}
}

func (w *writer) end() {
	if w.finish == "" {
		w.finish = "stop"
		if len(w.calls) > 0 {
			w.finish = "tool_calls"
		}
	}
	switch {
	case w.message != nil:
		w.message.finish(w.finish)
		return
	case !w.asked.Stream:
		w.whole()
		return
	}
	w.chunk(object{}, w.finish)
	if w.asked.includeUsage() && w.usage != nil {
		w.data(object{"choices": []object{}, "usage": w.usage})
	}
	w.send("data: [DONE]\n\n")
}

// whole is the response for a client that requested no stream.
func (w *writer) whole() {
	message := object{"role": "assistant", "content": nil}
	for field, text := range w.text {
		message[field] = text
	}
	if len(w.calls) > 0 {
		message["tool_calls"] = w.calls
	}
	w.Header().Set("Content-Type", "application/json")
	answer := object{
		"id": "chatcmpl-test", "object": "chat.completion", "created": 0, "model": w.asked.Model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": w.finish}},
	}
	if w.usage != nil {
		answer["usage"] = w.usage
	}
	_, _ = w.Write(encode(answer))
}

func (w *writer) chunk(delta object, finish any) {
	w.data(object{"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (w *writer) data(chunk object) {
	chunk["id"], chunk["object"], chunk["created"], chunk["model"] = "chatcmpl-test", "chat.completion.chunk", 0, w.asked.Model
	w.send("data: " + string(encode(chunk)) + "\n\n")
}

func (w *writer) send(text string) {
	if w.asked.Stream {
		w.sent = true
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"turnstile/test/history"
)

// Model serves Chat Completions at an address until it is killed. A request has the session's lock
// until it ends or its client disconnects.
func Model(dir, addr string) int {
	r, err := newRecorder(dir, "model")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", r.complete)
	server := http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.Serve(l))
	return 1
}

func (r *recorder) complete(w http.ResponseWriter, req *http.Request) {
	var asked struct {
		Messages []struct {
			Role    string
			Content json.RawMessage // a text, or a list of parts with texts
		}
	}
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	// The last message is the turn's, or a steer. Before it there may be others of the same turn.
	plans := Plans(string(asked.Messages[len(asked.Messages)-1].Content))
	var seen []string
	for i := len(asked.Messages) - 2; i >= 0 && asked.Messages[i].Role == "user"; i-- {
		for _, p := range Plans(string(asked.Messages[i].Content)) {
			seen = append(seen, p.ID)
		}
	}
	if len(plans) == 0 {
		http.Error(w, "no plan", http.StatusBadRequest)
		return
	}
	rec := history.Record{Session: plans[0].Session, Since: time.Now().UnixNano(), Seen: seen}
	for _, p := range plans {
		rec.IDs = append(rec.IDs, p.ID)
	}
	// A cancelled request's end may reach this server after the next request.
	t, err := r.beginWithin(rec, 500*time.Millisecond)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	chunk := func(delta object, finish any) {
		data := encode(object{"object": "chat.completion.chunk", "choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}})
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		_ = flush.Flush()
	}
	chunk(object{"role": "assistant"}, nil)
	for _, p := range plans {
		for n := range pieces {
			chunk(object{"content": history.Piece(p.ID, n)}, nil)
			select {
			case <-req.Context().Done():
				t.end("cancelled")
				return
			case <-time.After(p.Work / pieces):
			}
		}
		if p.End == history.EndFail || p.End == history.EndDie {
			t.end(p.End)
			panic(http.ErrAbortHandler) // the connection breaks in mid-stream
		}
	}
	// The lock is free before the reply is complete: the worker may end the turn at once.
	t.end(history.EndOK)
	chunk(object{"content": history.Reply(append(seen, rec.IDs...))}, nil)
	chunk(object{}, "stop")
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

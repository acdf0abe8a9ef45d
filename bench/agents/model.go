package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
)

// startModel serves Chat Completions that reply as the agents do.
func startModel() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
			http.Error(w, "no messages", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta object, finish any) {
			data, err := json.Marshal(object{
				"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
				"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
			})
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data) // it fails only if the client went away
			_ = http.NewResponseController(w).Flush()
		}
		say(asked.Messages[len(asked.Messages)-1].Content, func(text string) { chunk(object{"content": text}, nil) })
		chunk(object{}, "stop")
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	}))
}

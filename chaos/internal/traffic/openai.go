package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"turnstile/test/history"
)

// response is a client's record of one streamed response of OpenAI's API.
type response struct {
	id     string
	last   int64             // the last sequence number
	texts  map[string]string // of items, by their IDs
	ids    []string          // of the items, in their order
	status string
	output string // the text of the response's end
	error  string
}

type openaiEvent struct {
	Type           string
	SequenceNumber int64  `json:"sequence_number"`
	ItemID         string `json:"item_id"`
	Delta          string
	Code           string
	Response       struct {
		ID     string
		Status string
		Output []struct {
			ID      string
			Type    string
			Content []struct{ Text string }
		}
	}
}

// take handles one event of the stream.
func (r *response) take(data string) {
	var e openaiEvent
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		r.error = fmt.Sprintf("%v in %s", err, data)
		return
	}
	if e.Type == "error" { // it has the number of the event before it, or comes before response.failed
		if e.Code == "events_lost" {
			r.error = "error event " + e.Code
		}
		return
	}
	if r.id != "" && e.SequenceNumber <= r.last {
		r.error = fmt.Sprintf("event %d (%s) behind event %d", e.SequenceNumber, e.Type, r.last)
	}
	r.last = e.SequenceNumber
	switch e.Type {
	case "response.created":
		r.id = e.Response.ID
	case "response.output_text.delta":
		if _, ok := r.texts[e.ItemID]; !ok {
			r.ids = append(r.ids, e.ItemID)
		}
		r.texts[e.ItemID] += e.Delta
	case "response.completed", "response.incomplete", "response.failed":
		r.status = e.Response.Status
		for _, item := range e.Response.Output {
			for _, part := range item.Content {
				r.output += part.Text
			}
		}
	}
}

// byOpenAI sends a message as a streamed response, and reads it to its end at any gateway that
// serves.
func (t *Traffic) byOpenAI(m message, text string, try int) (told, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.longest)
	defer cancel()
	r := response{texts: map[string]string{}}
	since := time.Now().UnixNano()
	body, err := json.Marshal(map[string]any{"model": "m", "conversation": m.session, "input": text, "stream": true})
	if err != nil {
		return told{status: history.Unknown}, err
	}
	for r.id == "" {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.gateway(try)+"/v1/responses", bytes.NewReader(body))
		if err != nil {
			return told{status: history.Unknown}, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", m.id)
		if code, refusal := t.stream(req, &r); code != http.StatusOK && code != 0 && code < 500 {
			if bytes.Contains(refusal, []byte("idempotency_conflict")) {
				return told{status: history.Conflict}, nil
			}
			return told{status: history.Refused, reason: string(refusal)}, nil
		}
		if r.id == "" {
			if try++; ctx.Err() != nil {
				return told{status: history.Unknown}, context.Cause(ctx)
			}
			pause(ctx, 200*time.Millisecond)
		}
	}
	for r.status == "" && ctx.Err() == nil && r.error == "" {
		try++
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/responses/%s?stream=true&starting_after=%d", t.gateway(try), r.id, r.last), nil)
		if err != nil {
			return told{status: history.Accepted}, err
		}
		if code, refusal := t.stream(req, &r); code != http.StatusOK && code != 0 && code < 500 {
			r.error = string(refusal)
		}
		pause(ctx, 50*time.Millisecond)
	}
	rec := history.Record{
		Kind: history.Response, Session: m.session, ID: m.id, Since: since, Status: r.status, Reply: r.output, Error: r.error, Attempt: len(r.ids),
	}
	if n := len(r.ids); n > 0 {
		rec.Text = r.texts[r.ids[n-1]]
	}
	t.log.Add(rec)
	return told{status: history.Accepted}, nil
}

// stream reads events into r. It returns the status, 0 without a response, and a refusal's body.
func (t *Traffic) stream(req *http.Request, r *response) (code int, refusal []byte) {
	res, err := t.http.Do(req)
	if err != nil {
		return 0, nil
	}
	if res.StatusCode != http.StatusOK {
		refusal, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
		return res.StatusCode, refusal
	}
	_ = readEvents(res.Body, func(_, data string) { r.take(data) })
	_ = res.Body.Close()
	return res.StatusCode, nil
}

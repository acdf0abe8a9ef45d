package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"turnstile/test/history"
)

// chatReply is a client's record of one chat completion.
type chatReply struct {
	text  string
	ended bool
	code  string // of the error that ended it
}

type chatChunk struct {
	Choices []struct {
		Delta   struct{ Content string } // of a stream
		Message struct{ Content string } // of a whole response
	}
	Error struct{ Code string }
}

// take handles one chunk, or a whole response.
func (r *chatReply) take(data string) {
	if data == "[DONE]" {
		r.ended = true
		return
	}
	var c chatChunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		r.code = err.Error()
		return
	}
	for _, choice := range c.Choices {
		r.text += choice.Delta.Content + choice.Message.Content
	}
	if c.Error.Code != "" {
		r.code = c.Error.Code
	}
}

// byChat sends a message as a chat completion of its session, and repeats the request until one
// returns the outcome. Half of the clients ask for a stream.
func (t *Traffic) byChat(m message, text string, try int) (told, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.longest)
	defer cancel()
	since := time.Now().UnixNano()
	stream := m.wait%2 == 0
	body, err := json.Marshal(map[string]any{"model": "m", "messages": []map[string]string{{"role": "user", "content": text}}, "stream": stream})
	if err != nil {
		return told{status: history.Unknown}, err
	}
	rec := history.Record{Kind: history.Response, Via: viaChat, Session: m.session, ID: m.id, Since: since}
	for ; ; try++ {
		if ctx.Err() != nil {
			return told{status: history.Unknown}, context.Cause(ctx)
		}
		r, code, refusal := t.chat(ctx, t.gateway(try), m, body, stream)
		switch {
		case r.ended:
			rec.Status, rec.Reply = "completed", r.text
		case r.code == "turn_restarted", code == 0, code >= 500, code == http.StatusOK && !strings.HasPrefix(r.code, "turn_"): // it ended early
			pause(ctx, 200*time.Millisecond)
			continue
		case strings.HasPrefix(r.code, "turn_"): // in a stream
			rec.Status = strings.TrimPrefix(r.code, "turn_")
		case bytes.Contains(refusal, []byte(`"code":"turn_`)):
			var c chatChunk
			if err := json.Unmarshal(refusal, &c); err != nil {
				rec.Error = err.Error()
			}
			rec.Status = strings.TrimPrefix(c.Error.Code, "turn_")
		case bytes.Contains(refusal, []byte("idempotency_conflict")):
			return told{status: history.Conflict}, nil
		default:
			return told{status: history.Refused, reason: string(refusal)}, nil
		}
		t.log.Add(rec)
		return told{status: history.Accepted}, nil
	}
}

// chat makes one request. It returns the status, 0 without a response, and a refusal's body.
func (t *Traffic) chat(ctx context.Context, gateway string, m message, body []byte, stream bool) (r chatReply, code int, refusal []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return r, 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", m.id)
	req.Header.Set("X-Turnstile-Session", m.session)
	res, err := t.http.Do(req)
	if err != nil {
		return r, 0, nil
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode != http.StatusOK:
		refusal, _ = io.ReadAll(res.Body)
	case stream:
		_ = readEvents(res.Body, func(_, data string) { r.take(data) })
	default:
		whole, err := io.ReadAll(res.Body)
		if err == nil {
			r.take(string(whole))
			r.ended = r.code == ""
		}
	}
	return r, res.StatusCode, refusal
}

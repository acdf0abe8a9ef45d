package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"

	"turnstile/internal/text/boundedjson"
)

// chunk has the fields of a streamed chunk that the agent uses.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"` // if there is one, the chunk is an error
}

type choice struct {
	Index  int64 `json:"index"`
	Finish words `json:"finish_reason"`
	Delta  struct {
		Content   words      `json:"content"`
		Refusal   words      `json:"refusal"`
		Reasoning words      `json:"reasoning"`
		Thoughts  words      `json:"reasoning_content"`
		ToolCalls []fragment `json:"tool_calls"`
	} `json:"delta"`
}

// fragment is a piece of a tool call.
type fragment struct {
	Index    int64 `json:"index"`
	ID       words `json:"id"`
	Function struct {
		Name      words `json:"name"`
		Arguments words `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// words is a text. It is empty if a server sends something else in its place.
type words string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte{'"'}) {
		*w = ""
		return nil
	}
	return json.Unmarshal(data, (*string)(w))
}

// chunks yields a stream's chunks until [DONE] or its end, or the error that ended it.
func chunks(r io.Reader) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		for data, err := range events(r, maxEvent) {
			if err != nil {
				yield(chunk{}, err)
				return
			}
			if bytes.HasPrefix(data, []byte("[DONE]")) {
				return
			}
			var c chunk
			err := boundedjson.Unmarshal(data, &c)
			if c.Error != nil { // whatever the rest is
				err = newStatusError(0, nil, data)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

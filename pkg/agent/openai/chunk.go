package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// chunk is what of a streamed chunk is looked at. There is one for each of the model's
// tokens, and the SDK's own type, which keeps every field as it came, takes several
// times as long to decode.
type chunk struct {
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
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

// words are a text, and empty where a server has put something else in its place.
type words string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte{'"'}) {
		*w = ""
		return nil
	}
	return json.Unmarshal(data, (*string)(w))
}

// begin sends the request. The stream has its error, too.
func (a *Agent) begin(ctx context.Context, params sdk.ChatCompletionNewParams) *ssestream.Stream[chunk] {
	var raw *http.Response
	err := a.client.Post(ctx, "chat/completions", params, &raw, option.WithJSONSet("stream", true))
	return ssestream.NewStream[chunk](ssestream.NewDecoder(raw), err)
}

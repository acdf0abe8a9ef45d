package openai

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"turnstile/internal/process/gulp"
)

// headerTimeout is how long a server may think before it answers at all.
const headerTimeout = 10 * time.Minute

// maxErrorBody is how much is read of an error's body.
const maxErrorBody = 64 << 10

// connect makes the client, without sdk.NewClient, which reads OPENAI_* from the
// environment.
func (a *Agent) connect() {
	a.http = &http.Client{} // of http.DefaultTransport, if a program has put another in its place
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.ResponseHeaderTimeout = headerTimeout
		a.http.Transport = transport
	}
	options := []option.RequestOption{
		option.WithBaseURL(a.base.String()),
		option.WithHTTPClient(a.http),
		option.WithMaxRetries(0), // see retry.go
		option.WithMiddleware(refuse),
	}
	if a.config.Key != "" {
		options = append(options, option.WithAPIKey(a.config.Key))
	}
	a.client = sdk.Client{Options: options}
}

// refuse makes an error of every answer that is no stream. The SDK would keep only
// those in OpenAI's own form, and read them whole.
func refuse(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 300 && kind != "application/json" && kind != "text/html" {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{gulp.New(resp.Body, req.Context().Done()), resp.Body}
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // some of it is enough
	return nil, newStatusError(resp.StatusCode, resp.Header, body)
}

// prepare makes what is the same in all requests.
func (a *Agent) prepare() {
	a.params = sdk.ChatCompletionNewParams{
		Model:         a.config.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if a.config.Temperature != nil {
		a.params.Temperature = param.NewOpt(*a.config.Temperature)
	}
	switch limit := param.NewOpt(int64(a.config.MaxTokens)); {
	case a.config.MaxTokens == 0:
	case newerLimit(a.base.Hostname()):
		a.params.MaxCompletionTokens = limit
	default:
		a.params.MaxTokens = limit
	}
	a.fixed = message{role: roleSystem, text: a.config.SystemPrompt}.tokens()
	for _, t := range a.config.Tools {
		var schema shared.FunctionParameters
		_ = json.Unmarshal(t.schema(), &schema) // checked before
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: schema}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		a.params.Tools = append(a.params.Tools, sdk.ChatCompletionFunctionTool(f))
		a.fixed += messageTokens + (len(t.Name)+len(t.Description)+len(t.schema()))/bytesPerToken
	}
}

// newerLimit reports whether a host knows max_completion_tokens for sure.
func newerLimit(host string) bool {
	for _, of := range []string{"openai.com", "azure.com"} {
		if host == of || strings.HasSuffix(host, "."+of) {
			return true
		}
	}
	return false
}

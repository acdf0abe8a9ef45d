package openai_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func chat(messages ...sdk.ChatCompletionMessageParamUnion) sdk.ChatCompletionNewParams {
	return sdk.ChatCompletionNewParams{Model: "echo", Messages: messages}
}

func TestChatOfASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	inSession := option.WithHeader("X-Turnstile-Session", "s")
	got, err := r.sdk.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("usage=7:5 tool=look hello")), inSession)
	expect.OK(t, err)
	expect.Equal(t, "text", got.Choices[0].Message.Content, "echo: hello")
	expect.Equal(t, "tools are the agent's", len(got.Choices[0].Message.ToolCalls), 0)
	expect.Equal(t, "tokens", got.Usage.TotalTokens, 12)
	p := chat(sdk.UserMessage("hello"), sdk.AssistantMessage("echo: hello"), sdk.UserMessage("only"), sdk.UserMessage("this"))
	p.Metadata = map[string]string{"session": "s"}
	got, err = r.sdk.Chat.Completions.New(t.Context(), p)
	expect.OK(t, err)
	expect.Equal(t, "what is new", got.Choices[0].Message.Content, "echo: only\n\nthis")
}

// A client sends its history with each message. A body may have one of the largest pictures in the
// history and another in the message, or 8 MiB, and no more. The pictures are as large as a small bound of a
// message allows: with the race detector, larger ones keep a processor busy for seconds.
func TestChatWithPicturesInItsHistory(t *testing.T) {
	t.Parallel()
	const most = 256 << 10
	r := newRig(t, func(c *gateway.Config) { c.Limits.MessageBytes = most })
	r.worker()
	inSession := option.WithHeader("X-Turnstile-Session", "s")
	show := func(name string) sdk.ChatCompletionMessageParamUnion {
		url := "data:image/png;base64," + strings.Repeat("QUJD", most/4-200)
		return sdk.UserMessage([]sdk.ChatCompletionContentPartUnionParam{
			sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url}), sdk.TextContentPart(name),
		})
	}
	p := chat()
	for _, name := range []string{"one", "two", "three"} {
		p.Messages = append(p.Messages, show(name))
		got, err := r.sdk.Chat.Completions.New(t.Context(), p, inSession)
		expect.OK(t, err)
		expect.Equal(t, "reply", got.Choices[0].Message.Content, "echo: "+name)
		p.Messages = append(p.Messages, sdk.AssistantMessage(got.Choices[0].Message.Content))
	}
	for message, most := range map[int]int{2 << 20: 8 << 20, 5 << 20: 2 * (5<<20 + 16<<10)} {
		_, r.url = r.gateway(func(c *gateway.Config) { c.Limits.MessageBytes = message })
		body := `{"messages": [{"role": "user", "content": "hello"}], "metadata": {"session": "s"}}`
		body += strings.Repeat(" ", most-len(body))
		for _, length := range []int{-1, most} { // of an unknown length, and of a known one
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(body))
			expect.OK(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.ContentLength = int64(length)
			response, err := (&http.Client{Transport: transport(t)}).Do(request)
			expect.OK(t, err)
			response.Body.Close()
			expect.Equal(t, "status of the largest body", response.StatusCode, http.StatusOK)
		}
		status, got := r.post("/v1/chat/completions", body+" ")
		expect.Equal(t, "one byte more", fmt.Sprint(status, " ", got["error"].(map[string]any)["code"]), "413 body_too_large")
	}
}

func TestChatWithoutASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	got, err := r.sdk.Chat.Completions.New(t.Context(), chat(sdk.SystemMessage("Be kind."), sdk.UserMessage("hi"), sdk.AssistantMessage("ho"), sdk.UserMessage("well?")))
	expect.OK(t, err)
	expect.Equal(t, "all of it", got.Choices[0].Message.Content, "echo: System: Be kind.\n\nUser: hi\n\nAssistant: ho\n\nUser: well?")
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	p := chat(sdk.UserMessage("usage=7:5 tool=look stream=5 hello there"))
	p.StreamOptions.IncludeUsage = sdk.Bool(true)
	s := r.sdk.Chat.Completions.NewStreaming(t.Context(), p)
	var sum sdk.ChatCompletionAccumulator
	told := false
	for s.Next() {
		sum.AddChunk(s.Current())
		told = told || strings.Contains(s.Current().RawJSON(), `"turnstile":{"tool":"look"}`)
	}
	expect.OK(t, s.Err())
	expect.Equal(t, "text", sum.Choices[0].Message.Content, "echo: hello there")
	expect.Equal(t, "reason", sum.Choices[0].FinishReason, "stop")
	expect.Equal(t, "tokens", sum.Usage.TotalTokens, 12)
	expect.Equal(t, "the tool's name", told, true)
}

// before runs something once: before the nth read after an accepted message.
type before struct {
	nth   int64
	do    func()
	armed atomic.Bool
	reads atomic.Int64
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.count(cmd)
		return next(ctx, cmd)
	}
}

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.count(cmds...)
		return next(ctx, cmds)
	}
}

func (b *before) count(cmds ...redis.Cmder) {
	switch {
	case !b.armed.Load():
	case slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return strings.HasPrefix(c.Name(), "eval") }):
		b.reads.Store(0) // the script that accepts
	case b.reads.Add(1) == b.nth && b.armed.CompareAndSwap(true, false):
		b.do()
	}
}

// A repeated request gets the whole text, also if the message's turn begins while the gateway
// looks at it. Found by make chaos.
func TestChatRepeatedWhileItsTurnRuns(t *testing.T) {
	t.Parallel()
	for nth := range 7 {
		t.Run(fmt.Sprint(nth+1), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			b := &before{nth: int64(nth + 1), do: func() {
				r.worker()
				expect.Soon(t, "the turn runs", func() bool {
					state, _, _, err := actors.MessageState(t.Context(), r.client.Session("s"), "m")
					return err == nil && state == "running"
				})
			}}
			r.hook = b
			_, url := r.gateway()
			client := r.at(url)
			p := chat(sdk.UserMessage("stream=10 tick=200ms one two three four"))
			options := []option.RequestOption{option.WithHeader("X-Turnstile-Session", "s"), option.WithHeader("Idempotency-Key", "m")}
			first, leave := context.WithCancel(t.Context())
			s := client.Chat.Completions.NewStreaming(first, p, options...)
			s.Next() // the message is stored
			leave()
			for s.Next() {
			}
			b.armed.Store(true)
			again := client.Chat.Completions.NewStreaming(t.Context(), p, options...)
			text := ""
			for again.Next() {
				text += again.Current().Choices[0].Delta.Content
			}
			expect.OK(t, again.Err())
			expect.Equal(t, "the turn ran meanwhile", b.armed.Load(), false)
			expect.Equal(t, "text", text, "echo: one two three four")
		})
	}
}

// A failed turn is no reply, and no SDK repeats the request. LangChain would after 422, the AI SDK after
// an error in a stream unless its type calls the request invalid.
func TestChatOfAFailedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	_, err := r.sdk.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("fail=final x")))
	r.refused(err, 400, "turn_failed", "failed: echo: told to fail")
	if failed := new(sdk.Error); !errors.As(err, &failed) || !strings.Contains(failed.RawJSON(), `"turnstile_code":"agent_failed"`) {
		t.Errorf("%v has no code of the outcome", err)
	}
	s := r.sdk.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage("fail=final x")))
	for s.Next() {
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "turn_failed") || !strings.Contains(err.Error(), "invalid_request_error") {
		t.Errorf("streamed: %v", err)
	}
}

// The patterns of the gateway's destinations apply to conversations. A temporary session has no
// destination.
func TestDestinationsOfConversations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "destinations.json")
	entry := `[{"name": "hook", "url": "https://hook.example", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["*"]}]`
	expect.OK(t, os.WriteFile(path, []byte(entry), 0o600))
	file, err := outbox.OpenFile(path)
	expect.OK(t, err)
	r := newRig(t)
	r.destinations = file
	_, url := r.gateway()
	client := r.at(url)
	r.worker()
	_, err = client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hello")), option.WithHeader("X-Turnstile-Session", "s"))
	expect.OK(t, err)
	expect.Equal(t, "stored for the session", r.redis.ZCard(t.Context(), rediskey.For("s").Outbox()).Val(), 1)
	_, err = client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hello")))
	expect.OK(t, err)
	expect.Equal(t, "sessions with deliveries", len(r.redis.Keys(t.Context(), "turnstile:*:outbox").Val()), 1)
}

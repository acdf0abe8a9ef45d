package openai_test

import (
	"net"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// programs are real gateways and workers on a Redis of the test's own.
type programs struct {
	*testing.T
	redis string
}

func newPrograms(t *testing.T) programs {
	t.Helper()
	return programs{t, redistest.StartServer(t).URL()}
}

// gateway starts a gateway and returns its official client.
func (p programs) gateway() (*program.Process, sdk.Client, string) {
	p.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(p, err)
	addr := listener.Addr().String()
	expect.OK(p, listener.Close())
	gateway := program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/gateway"), []string{
		"REDIS_URL=" + p.redis, "TURNSTILE_GATEWAY_ADDR=" + addr,
	}))
	url := "http://" + addr
	expect.Soon(p, "the gateway listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	r := rig{T: p.T}
	return gateway, r.at(url, option.WithMaxRetries(0)), url
}

func (p programs) worker() *program.Process {
	p.Helper()
	return program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + p.redis, "TURNSTILE_AGENT=echo", "TURNSTILE_HTTP_ADDR=", "TURNSTILE_SENTINEL_TTL=1s",
	}))
}

// A gateway is killed in the middle of a stream. The client goes on at another one, and has every
// event once.
func TestGatewayKilledInMidStream(t *testing.T) {
	t.Parallel()
	p := newPrograms(t)
	p.worker()
	gateway, client, _ := p.gateway()
	s := client.Responses.NewStreaming(t.Context(), say("s", "tool=look stream=12 tick=100ms one two three four five six"))
	var got []string
	var id string
	var last int64
	for deltas := 0; s.Next(); {
		e := s.Current()
		got, last = append(got, e.RawJSON()), e.SequenceNumber
		if e.Response.ID != "" {
			id = e.Response.ID
		}
		if e.Type == "response.output_text.delta" {
			if deltas++; deltas == 3 {
				gateway.Kill()
			}
		}
	}
	if s.Err() == nil {
		t.Fatal("the stream has outlived its gateway")
	}
	_, elsewhere, _ := p.gateway()
	rest, _ := streamed(t, elsewhere.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: sdk.Int(last)}))
	for _, e := range rest {
		got = append(got, e.RawJSON())
	}
	end := rest[len(rest)-1]
	expect.Equal(t, "end", end.Type+" "+end.Response.OutputText(), "response.completed echo: one two three four five six")
	whole, _ := streamed(t, elsewhere.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	var want []string
	for _, e := range whole {
		want = append(want, e.RawJSON())
	}
	expect.List(t, "events of both gateways", got, want...)
}

// A worker is killed when half of a reply was streamed, and another one runs the turn again. The
// clients of each API are told.
func TestTurnRunAgainAfterHalfAStream(t *testing.T) {
	t.Parallel()
	p := newPrograms(t)
	worker := p.worker()
	_, client, _ := p.gateway()
	const text = "stream=20 tick=100ms one two three four five six seven eight"
	chatted := client.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage(text)))
	s := client.Responses.NewStreaming(t.Context(), say("s", text))
	for s.Next() && s.Current().Type != "response.output_text.delta" {
	}
	half := ""
	for half == "" && chatted.Next() {
		half = chatted.Current().Choices[0].Delta.Content
	}
	worker.Signal(syscall.SIGKILL)
	p.worker()
	var old, items []string
	turns := 0
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "response.in_progress":
			turns++
			expect.Equal(t, "the output begins again", len(e.Response.Output), 0)
		case "response.output_item.done":
			items = append(items, e.Item.Status)
			old = append(old, e.Item.ID)
		case "response.completed":
			expect.Equal(t, "text", e.Response.OutputText(), "echo: one two three four five six seven eight")
			expect.Equal(t, "item", e.Response.Output[len(e.Response.Output)-1].ID, old[len(old)-1])
		}
	}
	expect.OK(t, s.Err())
	expect.List(t, "items", items, "incomplete", "completed")
	expect.Equal(t, "turns after the kill", turns, 1)
	for chatted.Next() {
	}
	if err := chatted.Err(); err == nil || !strings.Contains(err.Error(), "turn_restarted") {
		t.Errorf("the chat is not told: %v", err)
	}
	// The same request again gets the new turn.
	again, err := client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage(text)), option.WithHeader("X-Stainless-Retry-Count", "1"))
	expect.OK(t, err)
	expect.Equal(t, "again", again.Choices[0].Message.Content, "echo: one two three four five six seven eight")
}

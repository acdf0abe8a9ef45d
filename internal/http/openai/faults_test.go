package openai_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// programs are real gateways and workers on the test's Redis.
type programs struct {
	*testing.T
	server *redistest.Server
	redis  string // its URL
}

func newPrograms(t *testing.T) programs {
	t.Helper()
	server := redistest.StartServer(t)
	return programs{t, server, server.URL()}
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

// worker starts a worker, and waits until gateways can see one.
func (p programs) worker() *program.Process {
	p.Helper()
	worker := program.Start(p, program.Command(p, program.Build(p, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + p.redis, "TURNSTILE_AGENT=echo", "TURNSTILE_HTTP_ADDR=", "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(),
	}))
	expect.Soon(p, "a worker lives", func() bool {
		n, err := p.server.Client().ZCard(p.Context(), "asynq:servers").Result()
		return err == nil && n > 0
	})
	return worker
}

// A gateway is killed in the middle of a stream. The client continues at another one, and has every
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
// clients of each API learn it.
func TestTurnRunAgainAfterHalfAStream(t *testing.T) {
	t.Parallel()
	p := newPrograms(t)
	worker := p.worker()
	_, client, url := p.gateway()
	const text = "stream=20 tick=100ms one two three four five six seven eight"
	keyed := option.WithHeader("Idempotency-Key", "k")
	chatted := client.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage(text)), keyed)
	s := client.Responses.NewStreaming(t.Context(), say("s", text))
	id := ""
	for s.Next() && s.Current().Type != "response.output_text.delta" {
		if s.Current().Response.ID != "" {
			id = s.Current().Response.ID
		}
	}
	half := ""
	for half == "" && chatted.Next() {
		half = chatted.Current().Choices[0].Delta.Content
	}
	worker.Signal(syscall.SIGKILL)
	p.worker()
	first := s.Current().SequenceNumber
	// So does a client that lost the stream at its first text, and reopens it after that.
	lost := client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: sdk.Int(first)})
	var last int64
	for name, s := range map[string]*ssestream.Stream[responses.ResponseStreamEventUnion]{"the stream": s, "the one behind its first text": lost} {
		before, items := last, ""
		for s.Next() {
			if last = s.Current().SequenceNumber; s.Current().Type == "response.output_item.done" {
				items += s.Current().Item.Status
			}
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "turn_restarted") {
			t.Errorf("%s is not told: %v", name, err)
		}
		expect.Equal(t, "items of "+name, items, "incomplete")
		if before > 0 {
			expect.Equal(t, "the last number of each", last, before)
		}
	}
	again := rawStream(t, url, id, first)
	if _, problem, _ := strings.Cut(again, "event: error"); !strings.Contains(problem, `"sequence_number":`+strconv.FormatInt(last, 10)) || !strings.Contains(problem, "turn_restarted") {
		t.Errorf("no error with the number %d: %s", last, again)
	}
	// After its last event the stream continues with the new turn. From the beginning, or after the
	// same request again, it has only the new turn, under the same numbers.
	rest := client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: sdk.Int(last)})
	var items, ids []string
	var numbers []int64
	for rest.Next() {
		e := rest.Current()
		switch e.Type {
		case "response.in_progress":
			t.Error("the turn begins twice")
		case "response.output_item.done":
			items, ids = append(items, e.Item.Status), append(ids, e.Item.ID)
		case "response.completed":
			expect.Equal(t, "text", e.Response.OutputText(), "echo: one two three four five six seven eight")
			expect.Equal(t, "item", e.Response.Output[len(e.Response.Output)-1].ID, ids[len(ids)-1])
		}
		numbers = append(numbers, e.SequenceNumber)
	}
	expect.OK(t, rest.Err())
	expect.List(t, "items", items, "completed")
	whole, reply := streamed(t, client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	expect.Equal(t, "the new turn alone", reply, "echo: one two three four five six seven eight")
	at := 3 // after response.created, response.queued and response.in_progress
	for _, number := range numbers {
		if at < len(whole) && whole[at].SequenceNumber == number {
			at++
		}
	}
	expect.Equal(t, "events with the same numbers", at, len(whole))
	expect.Equal(t, "its first item", whole[3].Type+" "+strconv.FormatInt(whole[3].OutputIndex, 10), "response.output_item.added 0")
	for chatted.Next() {
	}
	if err := chatted.Err(); err == nil || !strings.Contains(err.Error(), "turn_restarted") {
		t.Errorf("the chat is not told: %v", err)
	}
	// The same request again gets the new turn.
	repeated, err := client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage(text)), keyed)
	expect.OK(t, err)
	expect.Equal(t, "again", repeated.Choices[0].Message.Content, "echo: one two three four five six seven eight")
}

// A draining gateway ends its streams with an event error and breaks them off, so nobody takes half
// a reply for the whole.
func TestDrainBreaksStreamsOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	g, url := r.gateway()
	for path, body := range map[string]string{
		"/v1/responses":        `{"stream": true, "input": "stream=2 tick=1h half a reply"}`,
		"/v1/chat/completions": `{"stream": true, "messages": [{"role": "user", "content": "stream=2 tick=1h half a reply"}]}`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		expect.OK(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		expect.OK(t, err)
		defer response.Body.Close()
		in := bufio.NewReader(response.Body)
		for line := ""; !strings.Contains(line, "echo:"); {
			line, err = in.ReadString('\n')
			expect.OK(t, err)
		}
		defer func() {
			rest, err := io.ReadAll(in)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", path, err)
			}
			if text := string(rest); !strings.Contains(text, `"code":"draining"`) || !strings.Contains(text, `"type":"invalid_request_error"`) {
				t.Errorf("%s: %s", path, rest)
			}
		}()
	}
	g.Drain()
}

// A stream that may not be opened is refused before its message is stored. If the gateway begins to drain
// just after that, no SDK repeats the request after its problem.
func TestStreamsThatAreNotOpened(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/responses":        `{"stream": true, "input": "x", "conversation": "s"}`,
		"/v1/chat/completions": `{"stream": true, "messages": [{"role": "user", "content": "x"}], "metadata": {"session": "s"}}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := &before{nth: 1}
			r := &rig{T: t, redis: redistest.New(t), hook: b}
			r.client = turnstile.NewClient(r.redis)
			stored := func(n int64) {
				t.Helper()
				expect.Equal(t, "messages", r.redis.LLen(t.Context(), "asynq:{session:s}:pending").Val(), n)
			}
			g, url := r.gateway(func(c *gateway.Config) { c.Streams = 1 })
			client := r.at(url)
			open := client.Responses.NewStreaming(t.Context(), say("other", "x"))
			expect.Equal(t, "a stream is open", open.Next(), true)
			r.url = url
			code := func(status int, got map[string]any) string {
				failure, _ := got["error"].(map[string]any)
				return fmt.Sprint(status, " ", failure["code"], " ", failure["type"])
			}
			expect.Equal(t, "one stream too many", code(r.post(path, body)), "429 too_many_streams rate_limit_error")
			stored(0)
			expect.OK(t, open.Close())
			b.do = g.Drain
			expect.Soon(t, "the stream has ended", func() bool {
				b.armed.Store(true)
				got := code(r.post(path, body))
				if !strings.Contains(got, "429") {
					expect.Equal(t, "drained behind the message", got, "400 draining invalid_request_error")
				}
				return !strings.Contains(got, "429")
			})
			stored(1)
			expect.Equal(t, "with a key", code(r.post(path, body, "Idempotency-Key", "k")), "503 draining server_error")
		})
	}
}

// A turn that failed is an event error and then the response's end.
func TestStreamOfAFailedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	s := r.sdk.Responses.NewStreaming(t.Context(), say("s", "fail=final x"))
	id, last := "", int64(0)
	for s.Next() {
		if last = s.Current().SequenceNumber; last == 0 {
			id = s.Current().Response.ID
		}
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), `"type":"invalid_request_error"`) || !strings.Contains(err.Error(), "turn_failed") {
		t.Errorf("streamed: %v", err)
	}
	got, err := r.sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	expect.OK(t, err)
	expect.Equal(t, "response", string(got.Status)+" "+string(got.Error.Code), "failed turn_failed")
	rest := rawStream(t, r.url, id, last)
	const code = `"code":"turn_failed","turnstile_code":"agent_failed"`
	if n := strings.Count(rest, code); n != 1 || !strings.Contains(got.RawJSON(), `"turnstile_code":"agent_failed"`) {
		t.Errorf("%d events have %s: %s\n%s", n, code, rest, got.RawJSON())
	}
	if kinds := regexp.MustCompile(`event: (\S+)`).FindAllString(rest, -1); len(kinds) != 2 || kinds[0] != "event: error" || kinds[1] != "event: response.failed" {
		t.Errorf("%q in %s", kinds, rest)
	}
}

// rawStream reads a response's stream after an event to its end, without the SDK.
func rawStream(t *testing.T, url, id string, after int64) string {
	t.Helper()
	at := url + "/v1/responses/" + id + "?stream=true"
	if after >= 0 {
		at += "&starting_after=" + strconv.FormatInt(after, 10)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	expect.OK(t, err)
	response, err := (&http.Client{Transport: transport(t)}).Do(request)
	expect.OK(t, err)
	defer response.Body.Close()
	rest, err := io.ReadAll(response.Body)
	expect.OK(t, err)
	return string(rest)
}

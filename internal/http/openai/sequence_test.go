package openai_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/internal/http/openai"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// A number depends on the stored event and on the message's acceptance, and not on earlier reads.
func TestNumbers(t *testing.T) {
	t.Parallel()
	accepted := time.UnixMilli(1795227266293)
	ids := []string{
		"1795227266293-0.0", "1795227266293-0.1", "1795227266293-1.0", "1795227266293-4095.9", "1795227266294-0.0",
		"1795227270000-0.0", "1799000000000-0.0",
	}
	all := openai.Numbers(accepted, ids, 3)
	expect.Equal(t, "first", all[0], 1<<21)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			t.Errorf("%d behind %d", all[i], all[i-1])
		}
	}
	for i := range ids {
		expect.Equal(t, "trimmed before "+ids[i], fmt.Sprint(openai.Numbers(accepted, ids[i:], 3)), fmt.Sprint(all[3*i:]))
	}
	// The order survives a clock that is set back, more events than numbers for one stored event, and a
	// message of 1970.
	odd := openai.Numbers(accepted, []string{"1795227266292-0.0", "1795227266293-9999.0", "1795227266293-99999.0", "1795227266294-0.0", "1795227266293-0.0"}, 100)
	odd = append(odd, openai.Numbers(time.UnixMilli(0), ids, 3)...)
	if !slices.IsSorted(odd[:500]) || !slices.IsSorted(odd[500:]) || odd[len(odd)-1] >= 1<<53 {
		t.Errorf("%v", odd)
	}
	if len(slices.Compact(slices.Clone(odd[:500]))) != 500 {
		t.Error("a number was given twice")
	}
}

// A worker is killed in the second of two tools, and another one goes on. The readers of each API see one turn:
// their streams stay open, no item comes twice, and all items are those of the stored response.
func TestStreamOfATurnThatGoesOn(t *testing.T) {
	t.Parallel()
	for name, safe := range map[string]bool{"the tool runs again": true, "its end is unknown": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := newRig(t), t.TempDir()
			client := r.at(r.url, option.WithMaxRetries(0))
			model := modelserver.New(t)
			model.Otherwise(func(r modelserver.Request) modelserver.Response {
				switch tools := len(r.Messages); {
				case r.Messages[tools-1].Role != "tool":
					return modelserver.Stream(modelserver.Text("I look. "), modelserver.Call("c1", "work", `{"n":1}`))
				case tools < 5:
					return modelserver.Stream(modelserver.Text("And again. "), modelserver.Call("c2", "work", `{"n":2}`))
				}
				return modelserver.Reply("That is all.")
			})
			// The first run of the second tool waits for its end. cat reads the input's end.
			tool := fmt.Sprintf(`cd %q; n=$(cat); case $n in *2*) if [ ! -e begun ]; then touch begun; exec sleep 1000; fi;; esac; echo '{"saw":1}'`, dir)
			work := func() *program.Process { return worksWith(t, model, dir, tool, safe) }
			worker := work()
			chatted := client.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage("work twice")), option.WithHeader("Idempotency-Key", "k"))
			id := ""
			s := client.Responses.NewStreaming(t.Context(), say("s", "work twice"))
			for tools := 0; tools < 2 && s.Next(); {
				if e := s.Current(); e.Type == "response.created" {
					id = e.Response.ID
				} else if e.Type == "response.mcp_call.in_progress" {
					tools++
				}
			}
			expect.OK(t, s.Err())
			expect.Soon(t, "the second tool runs", func() bool {
				_, err := os.Stat(filepath.Join(dir, "begun"))
				return err == nil
			})
			last := s.Current().SequenceNumber
			worker.Signal(syscall.SIGKILL)
			reopened := client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{})
			work()
			rest, _ := streamed(t, s)
			whole, text := streamed(t, reopened)
			expect.Equal(t, "text", text, "I look. And again. That is all.")
			var numbers, behind []string
			var items, ended []string
			begun := 0
			for _, e := range whole {
				switch e.Type {
				case "response.in_progress":
					begun++
				case "response.output_item.added":
					items = append(items, e.Item.ID+" "+strconv.FormatInt(e.OutputIndex, 10))
				case "response.output_item.done":
					ended = append(ended, e.Item.ID+" "+e.Item.Status)
				}
				if e.SequenceNumber > last {
					numbers = append(numbers, e.Type+" "+strconv.FormatInt(e.SequenceNumber, 10))
				}
			}
			for _, e := range rest {
				behind = append(behind, e.Type+" "+strconv.FormatInt(e.SequenceNumber, 10))
			}
			expect.Equal(t, "beginnings", begun, 1)
			expect.List(t, "the first stream behind the kill", behind, numbers...)
			stored, err := client.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
			expect.OK(t, err)
			var want, wantEnded []string
			for i, item := range stored.Output {
				want = append(want, item.ID+" "+strconv.Itoa(i))
				wantEnded = append(wantEnded, item.ID+" "+item.Status)
			}
			expect.Equal(t, "items", len(want), 5)
			expect.List(t, "items of the stream", items, want...)
			expect.List(t, "their ends", ended, wantEnded...)
			again, _ := streamed(t, client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
			expect.Equal(t, "events of a stream after the end", len(again), len(whole))
			chatText := ""
			for chatted.Next() {
				if c := chatted.Current().Choices; len(c) > 0 {
					chatText += c[0].Delta.Content
				}
			}
			expect.OK(t, chatted.Err())
			expect.Equal(t, "chat", chatText, "I look. \n\nAnd again. \n\nThat is all.")
		})
	}
}

// worksWith starts a worker whose model has one tool, a shell command.
func worksWith(t *testing.T, model *modelserver.Server, dir, tool string, safe bool, environ ...string) *program.Process {
	t.Helper()
	return worksBy(t, model, dir, map[string]any{
		"name": "work", "description": "works", "parameters": map[string]any{"type": "object"}, "argv": []string{"/bin/sh", "-c", tool}, "safe": safe,
	}, environ...)
}

// worksBy starts a worker whose model has this tool.
func worksBy(t *testing.T, model *modelserver.Server, dir string, tool map[string]any, environ ...string) *program.Process {
	t.Helper()
	tools, err := json.Marshal([]map[string]any{tool})
	expect.OK(t, err)
	path := filepath.Join(dir, "tools.json")
	expect.OK(t, os.WriteFile(path, tools, 0o600))
	return program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), append([]string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=model", "OPENAI_BASE_URL=" + model.URL(), "TURNSTILE_MODEL=m", "TURNSTILE_TOOLS_FILE=" + path,
		"TURNSTILE_HTTP_ADDR=", "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(),
	}, environ...)))
}

// A worker is killed while the model writes, behind a tool. A reader of what does not count learns it, and a new one,
// now and after the end, gets only what counts.
func TestStreamFromTheBeginningAfterVoidText(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	client := r.at(r.url, option.WithMaxRetries(0))
	model := modelserver.New(t)
	var third atomic.Int32
	model.Otherwise(func(q modelserver.Request) modelserver.Response {
		switch {
		case q.Messages[len(q.Messages)-1].Role != "tool":
			return modelserver.Stream(modelserver.Text("I look. "), modelserver.Call("c1", "work", `{}`))
		case third.Add(1) <= 2: // one for each message
			return modelserver.Stream(modelserver.Text("Half "), modelserver.Hang())
		}
		return modelserver.Reply("That is all.")
	})
	worker := worksWith(t, model, dir, "cat >/dev/null; echo 1", false)
	keyed := option.WithHeader("Idempotency-Key", "k")
	chatted := client.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage("work")), keyed)
	s := client.Responses.NewStreaming(t.Context(), say("s", "work"))
	id := ""
	for said := ""; !strings.HasSuffix(said, "Half ") && s.Next(); said += s.Current().Delta {
		if s.Current().Type == "response.created" {
			id = s.Current().Response.ID
		}
	}
	for said := ""; !strings.HasSuffix(said, "Half ") && chatted.Next(); {
		if c := chatted.Current().Choices; len(c) > 0 {
			said += c[0].Delta.Content
		}
	}
	worker.Signal(syscall.SIGKILL)
	reopened := client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{})
	worksWith(t, model, dir, "cat >/dev/null; echo 1", false)
	for s.Next() {
	}
	for chatted.Next() {
	}
	for name, err := range map[string]error{"the stream": s.Err(), "the chat": chatted.Err()} {
		if err == nil || !strings.Contains(err.Error(), "turn_restarted") {
			t.Errorf("%s is not told: %v", name, err)
		}
	}
	for reopened.Next() { // it may have had the text before the kill was known
	}
	again := client.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage("work")), keyed)
	said := ""
	for again.Next() {
		if c := again.Current().Choices; len(c) > 0 {
			said += c[0].Delta.Content
		}
	}
	expect.OK(t, again.Err())
	expect.Equal(t, "the same request again", said, "I look. \n\nThat is all.")
	var stored *responses.Response
	expect.Soon(t, "the response is completed", func() (done bool) {
		var err error
		stored, err = client.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		return err == nil && stored.Status == "completed"
	})
	events, text := streamed(t, client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	expect.Equal(t, "text", text, "I look. That is all.")
	var items, want []string
	for _, e := range events {
		if e.Type == "response.output_item.done" {
			items = append(items, e.Item.ID+" "+e.Item.Status)
		}
	}
	for _, item := range stored.Output {
		want = append(want, item.ID+" "+item.Status)
	}
	expect.List(t, "items", items, want...)
}

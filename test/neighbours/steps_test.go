package neighbours

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// A turn with steps begins on a worker of this version. It is killed, and one of the version before goes on:
// from the partial, with a note, and the steps run again. That one is killed, too, and this version's goes on
// after the last step that it has stored. The reply has nothing of the run between.
func TestStepsOverBothVersions(t *testing.T) {
	t.Parallel()
	before, this := versions(t)
	s := newStage(t)
	paid := filepath.Join(t.TempDir(), "paid")
	tools, err := json.Marshal([]map[string]any{{
		"name": "pay", "argv": []string{"sh", "-c", `read args; echo "$args" >>"$0"; echo '"paid"'`, paid},
	}})
	expect.OK(t, err)
	file := filepath.Join(t.TempDir(), "tools.json")
	expect.OK(t, os.WriteFile(file, tools, 0o600))
	model, free := modelserver.New(t), make(chan struct{})
	model.Otherwise(func(r modelserver.Request) modelserver.Response {
		number := len(model.Requests()) // s has one request at a time
		switch done := toolsAfter(r, "pay"); {
		case r.Last() == "hold":
			return modelserver.Stream(modelserver.Wait(free), modelserver.Text("held"))
		case number == 3 || number == 6: // the second response of the first run, the third of the second
			return modelserver.Stream(modelserver.Text("cut"), modelserver.Hang())
		case done < 3:
			return modelserver.Stream(modelserver.Text(fmt.Sprintf("Request %d.", number)), modelserver.Call(fmt.Sprint("c", number), "pay", fmt.Sprintf(`{"n":%d}`, done)))
		}
		return modelserver.Stream(modelserver.Text(fmt.Sprintf("Request %d: all paid.", number)))
	})
	work := func(v version) *process {
		return s.worker(v, "TURNSTILE_CONCURRENCY=1", "TURNSTILE_AGENT=openai", "TURNSTILE_MODEL=m", "TURNSTILE_OPENAI_API_KEY=k",
			"TURNSTILE_OPENAI_BASE_URL="+model.URL(), "TURNSTILE_TOOLS_FILE="+file)
	}
	killIn := func(p *process, request int) {
		_, ok := model.Await(request)
		expect.Equal(t, "the request came", ok, true)
		p.Kill()
	}

	old := work(before)
	s.say("hold", "m", "hold") // it takes no other session
	_, ok := model.Await(1)
	expect.Equal(t, "the old worker is busy", ok, true)
	first := work(this)
	s.say("s", "m", "pay")
	killIn(first, 3)
	partial := s.rdb.Get(s.ctx, rediskey.For("s").Partial()).Val()
	if !strings.Contains(partial, "Request 2.") {
		t.Errorf("the partial for the old worker is %q", partial)
	}
	close(free)
	again, ok := model.Await(4)
	expect.Equal(t, "the old worker's request came", ok, true)
	if body := string(again.Body); !strings.Contains(body, "Request 2.") || toolsAfter(again, "pay") != 0 || again.Last() != "pay" {
		t.Errorf("the old worker's first request: %s", body)
	}
	work(this)
	killIn(old, 6)

	end := s.ends("s", "m")
	if end.Status != session.StatusDone || !strings.HasSuffix(end.Reply, "Request 9: all paid.") {
		t.Errorf("the end: %+v", end)
	}
	entries, err := actors.Transcript(s.ctx, s.client.Session("s"), s.info("s").TranscriptID)
	expect.OK(t, err)
	var got []string
	for _, e := range entries {
		text := e.Text
		if e.Tool != nil {
			text = string(e.Tool.Input)
		}
		got = append(got, fmt.Sprintf("%s: %s", e.Role, text))
	}
	expect.List(t, "transcript", got, "user: pay",
		"assistant: Request 2.", `tool: {"n":0}`, "assistant: Request 7.", `tool: {"n":1}`, "assistant: Request 8.", `tool: {"n":2}`, "assistant: Request 9: all paid.")
	lines, err := os.ReadFile(paid)
	expect.OK(t, err)
	expect.List(t, "effects", strings.Fields(string(lines)), `{"n":0}`, `{"n":0}`, `{"n":1}`, `{"n":1}`, `{"n":2}`)
	if n := s.rdb.Exists(s.ctx, rediskey.For("s").Partial(), rediskey.For("s").Journal()).Val(); n != 0 {
		t.Error("a partial or a journal is left")
	}
	s.nothingLeft("s")
}

// toolsAfter counts the results of tools that follow the last message with a text.
func toolsAfter(r modelserver.Request, text string) (count int) {
	last := len(r.Messages) - 1
	for last >= 0 && (r.Messages[last].Role != "user" || r.Messages[last].Text() != text) {
		last--
	}
	for _, m := range r.Messages[last+1:] {
		if m.Role == "tool" {
			count++
		}
	}
	return count
}

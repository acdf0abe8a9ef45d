package board_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/browser"
	"turnstile/test/expect"
)

// talker is an agent that says something fit for pictures.
type talker struct{}

func (talker) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	say := func(text string) (agent.Result, error) {
		for word := range strings.SplitAfterSeq(text, " ") {
			turn.Emit(agent.Event{Type: session.EventText, Text: word})
		}
		turn.Emit(agent.Event{Type: session.EventUsage, Usage: &session.Usage{Model: "talker-1", InputTokens: 4213, OutputTokens: 96, ContextTokens: 6200, ContextLimit: 200_000}})
		return agent.Result{}, nil
	}
	tool := func(name, input, output string) {
		turn.Emit(agent.Event{Type: session.EventToolStart, Name: name, CallID: "c1", Input: json.RawMessage(input)})
		turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "c1", Output: json.RawMessage(output)})
	}
	switch text := turn.Messages[0].Text; {
	case strings.HasPrefix(text, "I moved"):
		tool("find_order", `{"number": 7012}`, `{"state": "packed", "leaves": "tomorrow"}`)
		return say("It can: order 7012 leaves tomorrow. Shall I send it to the address in Lisbon that you gave us in May?")
	case strings.HasPrefix(text, "Yes"):
		tool("change_address", `{"number": 7012, "address": "Rua da Rosa 12, Lisbon"}`, `"done"`)
		return say("Done. It goes to **Rua da Rosa 12**:\n\n- leaves *tomorrow*\n- arrives on Friday")
	case strings.HasPrefix(text, "Please"):
		return agent.Result{}, errors.New("the model is overloaded; the key of the account has no quota left")
	case strings.HasPrefix(text, "Remove"):
		if _, err := say("I found 214 builds of last year, 38 GB in all. "); err != nil {
			return agent.Result{}, err
		}
		_, err := turn.Ask(ctx, agent.Question{Name: "shell", Text: "Deletes the builds of last year", Input: json.RawMessage(`{"command": "find /srv/builds -maxdepth 1 -name '2025-*' -exec rm -r {} +"}`)})
		return agent.Result{}, err
	default:
		_, _ = say("On a rock in the grey sea lived a keeper who had never learned to sail. Each evening she lit the lamp, and each morning ")
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	}
}

// The pictures of docs/board.md. TURNSTILE_PICTURES names the folder to write them to; without it
// the test only checks that no page is wider than the window.
func TestPictures(t *testing.T) {
	t.Parallel()
	folder := cmp.Or(os.Getenv("TURNSTILE_PICTURES"), t.TempDir())
	p := browser.Open(t)
	r := newRig(t)
	r.many(24)
	r.workerOf(talker{})
	r.say("web:anna", "I moved last week. Can order 7012 still go to my new address?")
	r.say("web:anna", "Yes, the one in Lisbon.")
	r.send("web:anna", "Tell me when it has left the warehouse.", actors.Delay(3*time.Hour))
	r.say("tg:ben", "Please summarize the meeting.")
	_, err := r.client.Session("tg:carla").Send(t.Context(), turnstile.Message{Text: "Remove the builds of last year.", Meta: map[string]string{"sender": "tg/carla", "sender_name": "Carla"}})
	expect.OK(t, err)
	r.send("web:dora", "Tell me a story about a lighthouse keeper.")
	r.send("web:dora", "Make it a short one.")
	r.send("web:emil", "Good morning!", actors.Delay(40*time.Minute))
	for key, title := range map[string]string{"web:anna": "Change of the delivery address", "tg:ben": "Minutes of Monday", "tg:carla": "Clean up the build server"} {
		expect.OK(t, r.client.Session(key).SetTitle(t.Context(), title))
	}
	for _, picture := range []struct {
		name, path, ready string
		width, height     int
		dark              bool
	}{
		{"board-sessions.png", "/board/", `document.querySelectorAll("tr[data-row] .running, tr[data-row] .asking").length === 2 && /^2 of [^]*16.9k tokens/.test(document.querySelector(".overview").textContent)`, 1100, 800, false},
		{"board-session-dark.png", "/board/s/tg:carla", `document.querySelector("#approve") && document.querySelector("time[data-left]").textContent.includes(":")`, 1100, 700, true},
		{"board-phone.png", "/board/s/web:anna", `document.querySelector("#line li")`, 390, 780, false},
		{"", "/board/", `document.querySelectorAll("tr[data-row]").length > 9`, 390, 780, true},
		{"", "/board/s/web:dora", `document.querySelector("#reply")?.textContent.length > 20`, 1100, 640, false},
		{"", "/board/s/tg:ben", `document.querySelector("#dead li")`, 390, 780, true},
		{"", "/board/s/web:anna/forget", `document.querySelector("#forget-confirm")`, 1100, 640, false},
	} {
		p.Size(picture.width, picture.height)
		p.Dark(picture.dark)
		p.Goto(r.url + picture.path)
		p.Await(picture.ready)
		expect.Equal(t, "wider than the window: "+picture.path, p.Eval("document.documentElement.scrollWidth > innerWidth"), "false")
		name := picture.name
		if name == "" {
			if os.Getenv("TURNSTILE_PICTURES_ALL") == "" {
				continue
			}
			name = "more-" + filepath.Base(picture.path) + ".png"
		}
		path := filepath.Join(folder, name)
		p.Shoot(path)
		info, err := os.Stat(path)
		expect.OK(t, err)
		if info.Size() > 150<<10 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
}

package adapters

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// An agent's question reaches the user, and the user's decision the agent.
func TestTheUserIsAsked(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]map[string]string{ // by the user's command, the text that the agent receives
		"exec jsonl": {"/approve": "true false", "/approve always": "true true", "/deny": "false false"},
		"acp":        {"/approve": "selected once", "/approve always": "selected always", "/deny": "selected no"},
	}
	settings := map[string][]string{
		"exec jsonl": {"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", "TURNSTILE_AGENT_COMMAND='" + self + "' 'role=asking jsonl' ."},
		"acp":        {"TURNSTILE_AGENT=acp", "TURNSTILE_AGENT_COMMAND='" + self + "' 'role=asking acp' ."},
	}
	for name := range says {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := actors.NewClient(redistest.New(t))
			startWorker(t, settings[name])
			ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
			defer cancel()
			n := 0
			for said, heard := range says[name] {
				n++
				key := fmt.Sprint("asked-", strings.ReplaceAll(name, " ", "-"), n)
				receipt, err := client.Session(key).Send(ctx, turnstile.Message{Text: "do it"})
				if err != nil {
					t.Fatal(err)
				}
				command, args, _ := strings.Cut(said, " ")
				var decided session.Decision
				outcome, err := actors.Follow(ctx, client.Session(key), receipt.ID, func(e session.Event) {
					switch e.Type {
					case session.EventQuestionAsked:
						if answer, err := client.Command(ctx, key, command, args); err != nil || !strings.HasSuffix(answer, ": "+e.Name+".") {
							t.Errorf("%s: %q, %v", said, answer, err)
						}
					case session.EventQuestionAnswered:
						decided = e.Decision
					}
				})
				if err != nil || outcome.Reply != heard {
					t.Errorf("%s: the agent heard %q (%s), want %q; %v", said, outcome.Reply, outcome.Why(), heard, err)
				}
				if want := map[bool]session.Decision{true: session.Allow, false: session.Deny}[command == "/approve"]; decided != want {
					t.Errorf("%s: decided %q", said, decided)
				}
			}
		})
	}
}

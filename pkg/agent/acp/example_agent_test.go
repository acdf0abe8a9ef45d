package acp

import (
	"context"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	programs "turnstile/test/program"
)

// The example agent of the SDK is an independent implementation of the protocol. Its source is there
// wherever these tests can be compiled.
func TestTheSDKsExampleAgent(t *testing.T) {
	t.Parallel()
	path := programs.Build(t, "github.com/coder/acp-go-sdk/example/agent")
	for _, c := range []struct {
		decision session.Decision
		said     string
		end      string
	}{
		{session.Allow, "Perfect! I've successfully updated the configuration.", `tool_end call_2 {"message":"Configuration updated","success":true}`},
		{session.Deny, "I understand you prefer not to make that change.", "tool_end call_2 it was not permitted"},
	} {
		t.Run(c.said, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: []string{path}})
			turn := turnWith(t, "Please improve the project.")
			var asked agent.Question
			turn.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
				asked = q
				return c.decision, nil
			}
			w := warmed(t, a, turn)
			h := &emitted{}
			_, err := w.Run(t.Context(), emitting(turn, h.emit))
			expect.OK(t, err)
			if asked.CallID != "call_2" || asked.Name != "Modifying critical configuration file" || !strings.Contains(string(asked.Input), "new-host") || asked.CanRemember {
				t.Errorf("asked %+v", asked)
			}
			story := h.story()
			for _, want := range []string{
				"text I'll help you with that.", `tool_start Reading project files call_1 {"path":"/project/README.md"}`,
				`tool_end call_1 {"content":"# My Project`, "tool_start Modifying critical configuration file call_2", c.said, c.end,
			} {
				if !strings.Contains(story, want) {
					t.Errorf("%q is not in\n%s", want, story)
				}
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		a := newAgent(t, Config{Command: []string{path}})
		turn := turnWith(t, "Please improve the project.")
		turn.Host.Ask = func(ctx context.Context, _ agent.Question) (session.Decision, error) {
			cancel()
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		if h, err := play(ctx, a, turn); err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("%v\n%s", err, h.story())
		}
	})
}

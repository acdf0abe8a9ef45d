package acp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// What yes or no decides is a question to the user. All else is declined as the protocol says.
func TestElicitation(t *testing.T) {
	t.Parallel()
	create := func(params string) string { return `call elicitation/create {"sessionId":"SESSION",` + params + `}` }
	form := func(properties string) string {
		return create(`"mode":"form","message":"Go on?","requestedSchema":{"type":"object","properties":{` + properties + `}}`)
	}
	declined := "notice The agent asked for input and got none, because it can be given only yes or no: Go on?"
	unasked := "notice The agent asked for input and got none, because no user is asked here: Go on?"
	for name, c := range map[string]struct {
		request     string
		decision    session.Decision
		permissions Permissions
		asked       string
		want        string
		story       string
	}{
		"a page":          {create(`"mode":"url","message":"Log in","url":"https://x.test/?a","elicitationId":"e","toolCallId":"c"`), session.Allow, "", "c input Log in\n\nhttps://x.test/?a", `{"action":"accept"}`, ""},
		"yes":             {form(`"ok":{"type":"boolean"}`), session.Allow, "", " input Go on?", `{"action":"accept","content":{"ok":true}}`, ""},
		"no":              {form(`"ok":{"type":"boolean"}`), session.Deny, "", " input Go on?", `{"action":"decline"}`, ""},
		"no fields":       {form(``), session.Allow, "", " input Go on?", `{"action":"accept"}`, ""},
		"a text":          {form(`"name":{"type":"string"}`), session.Allow, "", "", `{"action":"decline"}`, declined},
		"two fields":      {form(`"a":{"type":"boolean"},"b":{"type":"boolean"}`), session.Allow, "", "", `{"action":"decline"}`, declined},
		"another mode":    {create(`"mode":"voice","message":"Go on?"`), session.Allow, "", "", `{"action":"decline"}`, declined},
		"nobody is asked": {form(`"ok":{"type":"boolean"}`), session.Allow, Allow, "", `{"action":"decline"}`, unasked},
		"of two types":    {form(`"ok":{"type":["boolean","null"]}`), session.Allow, "", "", `{"action":"decline"}`, declined},
		"withdrawn":       {form(`"ok":{"type":"boolean"}`), "", "", " input Go on?", `{"action":"decline"}`, "notice The agent asked and you could not be asked, so it was denied: input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: actorCommand(t), Permissions: c.permissions})
			turn, asked := turnWith(t, c.request), ""
			turn.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
				asked = q.CallID + " " + q.Name + " " + q.Text
				if c.decision == "" {
					return "", errors.New("no")
				}
				return c.decision, nil
			}
			h, err := play(t.Context(), a, turn)
			expect.OK(t, err)
			expect.Equal(t, "question", asked, c.asked)
			expect.Equal(t, "response", strings.TrimSpace(h.text()), `{"result":`+c.want+`}`)
			if c.story != "" && !strings.Contains(h.story(), c.story) {
				t.Error(h.story())
			}
		})
	}
}

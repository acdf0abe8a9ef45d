package acp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestThePermissionOptionFitsTheDecision(t *testing.T) {
	t.Parallel()
	option := func(kind string) acpsdk.PermissionOption {
		return acpsdk.PermissionOption{Kind: acpsdk.PermissionOptionKind(kind), OptionId: acpsdk.PermissionOptionId("id-" + kind)}
	}
	options := func(kinds string) (all []acpsdk.PermissionOption) {
		for _, kind := range strings.Fields(kinds) {
			all = append(all, option(kind))
		}
		return all
	}
	everything := "reject_always allow_always odd reject_once allow_once"
	for _, c := range []struct {
		options  string
		decision session.Decision
		want     string
	}{
		{everything, session.Allow, "id-allow_once"},
		{everything, session.Always, "id-allow_always"},
		{everything, session.Deny, "id-reject_once"},
		{"allow_always", session.Allow, "id-allow_always"},
		{"reject_always", session.Deny, "id-reject_always"},
		{"allow_once odd", session.Deny, ""},
		{"odd", session.Allow, ""},
		{"", session.Allow, ""},
	} {
		got, ok := choose(options(c.options), c.decision)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if _, ok := choose([]acpsdk.PermissionOption{{Kind: "allow_once"}}, session.Allow); ok {
		t.Error("an option without an id was chosen")
	}
}

const wantsPermission = `session/request_permission {"sessionId":"SESSION","toolCall":{"toolCallId":"a","title":"rm x","status":"pending","rawInput":{"f":"x"},"content":[{"type":"content","content":{"type":"text","text":"Remove x?"}}]},` +
	`"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"Y","name":"Always","kind":"allow_always"},{"optionId":"n","name":"No","kind":"reject_once"}]}`

// An agent that gives all its requests one ID cannot have any number of them open.
func TestOneIDForSeveralRequests(t *testing.T) {
	t.Parallel()
	var r requests
	r.begin(t.Context())
	wait := func(ctx context.Context) { <-ctx.Done() }
	if !r.serve("1", wait) || r.serve("1", wait) || !r.serve("2", wait) {
		t.Error("a request whose id is taken was served, or another was not")
	}
	r.end()
}

func selected(id string) string {
	return `{"result":{"outcome":{"optionId":"` + id + `","outcome":"selected"}}}` + "\n"
}

func TestAPolicyDecidesOrAsks(t *testing.T) {
	t.Parallel()
	var question agent.Question
	type asks = func(context.Context, agent.Question) (session.Decision, error)
	ask := func(a session.Decision, err error) asks {
		return func(_ context.Context, q agent.Question) (session.Decision, error) {
			question = q
			return a, err
		}
	}
	for _, c := range []struct {
		policy  Permissions
		ask     asks
		want    string
		notices int
	}{
		{Allow, nil, selected("y"), 0},
		{Deny, ask(session.Allow, nil), selected("n"), 0},
		{AskUser, nil, selected("n"), 1},
		{AskUser, ask(session.Allow, nil), selected("y"), 0},
		{AskUser, ask(session.Always, nil), selected("Y"), 0},
		{AskUser, ask(session.Deny, nil), selected("n"), 0},
		{AskUser, ask(session.Allow, errors.New("nobody there")), selected("n"), 1},
	} {
		a := newAgent(t, Config{Command: actorCommand(t), Permissions: c.policy})
		turn := turnWith(t, "call "+wantsPermission, `update {"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"}`)
		turn.Host.Ask = c.ask
		h, err := play(t.Context(), a, turn)
		expect.OK(t, err)
		if h.text() != c.want || len(h.of(session.EventNotice)) != c.notices {
			t.Errorf("%s: %s", c.policy, h.story())
		}
		if !strings.HasPrefix(h.story(), `tool_start rm x a {"f":"x"}`) {
			t.Errorf("the tool did not start: %s", h.story())
		}
	}
	want := agent.Question{CallID: "a", Name: "rm x", Text: "Remove x?", Input: question.Input, CanRemember: true}
	if string(question.Input) != `{"f":"x"}` || question.Name != want.Name || question.Text != want.Text || question.CallID != "a" || !question.CanRemember {
		t.Errorf("asked %+v", question)
	}
}

// A tool that was denied, or has an unknown status, ends with an error, even without a further word
// of the agent.
func TestRefusedToolsFail(t *testing.T) {
	t.Parallel()
	noID := strings.Replace(wantsPermission, `"toolCallId":"a",`, "", 1)
	noWay := strings.ReplaceAll(wantsPermission, "allow_", "perhaps_")
	for _, c := range []struct {
		policy Permissions
		prompt []string
		want   string
	}{
		{Deny, []string{"quietly " + wantsPermission}, `tool_end a it was not permitted`},
		{Deny, []string{"quietly " + wantsPermission, `update {"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"}`}, `tool_end a it was not permitted`},
		{Deny, []string{"quietly " + wantsPermission, `update {"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed","rawOutput":"ok"}`}, `tool_end a "ok"`},
		{Deny, []string{"quietly " + noID}, `notice The agent asked for a permission (rm x): it was not permitted`},
		{Allow, []string{"quietly " + noWay}, `tool_end a the agent offered no way to permit it`},
		{Allow, []string{"quietly " + wantsPermission}, `tool_end a "Remove x?"`},
		{Deny, []string{"quietly " + wantsPermission, strings.Replace("quietly "+wantsPermission, "reject_once", "odd", 1)}, `tool_end a it was not permitted`},
		{Allow, []string{`update {"sessionUpdate":"tool_call","toolCallId":"a","title":"rm","status":"cancelled"}`}, `tool_end a the agent ended it with the status "cancelled"`},
		{Allow, []string{`update {"sessionUpdate":"tool_call","toolCallId":"a","title":"rm","status":"in_progress"}`}, `tool_end a null`},
	} {
		a := newAgent(t, Config{Command: actorCommand(t), Permissions: c.policy})
		h, err := play(t.Context(), a, turnWith(t, append(c.prompt, "text done")...))
		expect.OK(t, err)
		if !strings.Contains(h.story(), c.want) {
			t.Errorf("%s, %q:\n%s\nwant %s", c.policy, c.prompt, h.story(), c.want)
		}
	}
}

// Two questions are asked one after the other. One is withdrawn, which ends it.
func TestQuestions(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Command: actorCommand(t)})
	turn := turnWith(t, "ask "+wantsPermission, "ask "+wantsPermission, `raw {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`,
		`raw {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}`, "answers 2")
	asked := make(chan struct{}, 1)
	turn.Host.Ask = func(ctx context.Context, _ agent.Question) (session.Decision, error) {
		select {
		case asked <- struct{}{}:
		default:
			t.Error("two questions at a time")
		}
		<-ctx.Done()
		<-asked
		return "", context.Cause(ctx)
	}
	h, err := play(t.Context(), a, turn)
	expect.OK(t, err)
	if n := strings.Count(h.text(), `{"result":{"outcome":{"outcome":"cancelled"}}}`); n != 2 {
		t.Errorf("%s", h.text())
	}
}

// An open question of a cancelled turn is cancelled, after the session/cancel.
func TestCancelledQuestions(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		wantsPermission: `{"result":{"outcome":{"outcome":"cancelled"}}}`,
		`elicitation/create {"sessionId":"SESSION","mode":"url","url":"https://x.test"}`: `{"result":{"action":"cancel"}}`,
	} {
		a := newAgent(t, Config{Command: actorCommand(t), Grace: time.Minute})
		cause := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		turn := turnWith(t, "ask "+request, "cancelled", "answers 1", "end cancelled")
		turn.Host.Ask = func(askCtx context.Context, _ agent.Question) (session.Decision, error) {
			cancel(cause)
			<-askCtx.Done()
			return "", context.Cause(askCtx)
		}
		h, err := play(ctx, a, turn)
		if !errors.Is(err, cause) {
			t.Errorf("%v", err)
		}
		if h.text() != want+"\n" {
			t.Errorf("%s", h.story())
		}
	}
}

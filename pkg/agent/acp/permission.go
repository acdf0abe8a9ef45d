package acp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// permissionRequest is acpsdk.RequestPermissionRequest with a tool of any form.
type permissionRequest struct {
	SessionID string                    `json:"sessionId"`
	Tool      toolUpdate                `json:"toolCall"`
	Options   []acpsdk.PermissionOption `json:"options"`
}

func cancelled() acpsdk.RequestPermissionResponse {
	return acpsdk.RequestPermissionResponse{Outcome: acpsdk.NewRequestPermissionOutcomeCancelled()}
}

// permission decides by the policy. Only the kinds of the agent's options count. If none fits, the
// response is that the question was cancelled.
func (t *turn) permission(ctx context.Context, p permissionRequest) acpsdk.RequestPermissionResponse {
	name := p.Tool.ToolKind
	if p.Tool.Title != nil {
		name = cmp.Or(*p.Tool.Title, name)
	}
	if p.Tool.ID != "" {
		t.locked(func() { name = t.tools.asks(p.Tool) })
	}
	decision := session.Deny
	switch t.config.Permissions {
	case Allow:
		decision = session.Allow
	case AskUser:
		var asked bool
		if decision, asked = t.askUser(ctx, name, p); !asked {
			return cancelled()
		}
	case Deny:
	}
	option, ok := choose(p.Options, decision)
	why := ""
	switch {
	case !decision.Allowed():
		why = "it was not permitted"
	case !ok:
		why = "the agent offered no way to permit it"
	}
	t.locked(func() { t.tools.decided(p.Tool.ID, why) })
	if unasked := t.config.Permissions == Deny || decision.Allowed(); p.Tool.ID == "" && why != "" && unasked {
		t.notice(fmt.Sprintf("The agent asked for a permission (%s): %s", cmp.Or(name, "it did not say for what"), why))
	}
	if !ok {
		return cancelled()
	}
	return acpsdk.RequestPermissionResponse{Outcome: acpsdk.NewRequestPermissionOutcomeSelected(option)}
}

// askUser puts the question to the user. It returns false if the question was withdrawn.
func (t *turn) askUser(ctx context.Context, name string, p permissionRequest) (session.Decision, bool) {
	if t.host.Ask == nil {
		t.notice("The agent asked for a permission and no user could be asked, so it was denied: " + name)
		return session.Deny, true
	}
	always := func(o acpsdk.PermissionOption) bool { return o.Kind == acpsdk.PermissionOptionKindAllowAlways }
	text, _ := contentText(p.Tool.Content)
	return t.question(ctx, agent.Question{
		CallID: p.Tool.ID, Name: name, Text: text, Input: p.Tool.RawInput,
		CanRemember: slices.ContainsFunc(p.Options, always),
	})
}

// question asks one question after the other. It returns false if the question was withdrawn.
func (t *turn) question(ctx context.Context, q agent.Question) (session.Decision, bool) {
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return session.Deny, false
	}
	decision, err := t.host.Ask(ctx, q)
	switch {
	case ctx.Err() != nil:
		return session.Deny, false
	case err != nil:
		t.logger.Warn("the user could not be asked", "error", err)
		t.notice("The agent asked and you could not be asked, so it was denied: " + q.Name)
		return session.Deny, true
	}
	return decision, true
}

func (t *turn) notice(text string) {
	t.locked(func() { t.emitEvent(agent.Event{Type: session.EventNotice, Text: text}) })
}

// choose picks the option for the user's decision. A decision for once never picks an option that
// holds for ever, unless the agent offers no other way to allow.
func choose(options []acpsdk.PermissionOption, decision session.Decision) (acpsdk.PermissionOptionId, bool) {
	once, always := acpsdk.PermissionOptionKindRejectOnce, acpsdk.PermissionOptionKindRejectAlways
	if decision.Allowed() {
		once, always = acpsdk.PermissionOptionKindAllowOnce, acpsdk.PermissionOptionKindAllowAlways
	}
	kinds := []acpsdk.PermissionOptionKind{once, always}
	if decision == session.Always {
		kinds = []acpsdk.PermissionOptionKind{always, once}
	}
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind && o.OptionId != "" {
				return o.OptionId, true
			}
		}
	}
	return "", false
}

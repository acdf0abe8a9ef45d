package openai

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// itemReference is the type of an input's item that is only named: the AI SDK refers to the agent's items unless its
// requests have store false.
const itemReference = "item_reference"

// refer puts what the agent has said in place of references to it. In a session, which has its own items, a reference
// only has to be one of the agent's.
func (a *API) refer(r *gateway.Request, all []statement, whole bool) error {
	if !slices.ContainsFunc(all, func(s statement) bool { return s.item != "" }) {
		return nil
	}
	ctx := r.Work()
	if whole {
		done, err := r.Reads(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	size, turns := 0, map[string][]any{}
	for i, s := range all {
		if s.item == "" {
			continue
		}
		parts := ofAgent.FindStringSubmatch(s.item)
		if parts == nil {
			return notReferred(i, s.item)
		}
		kind, turn, encoded := parts[1], parts[2], parts[3]
		if !whole || kind == "mcp" { // the agent's own tools are left out of a history
			continue
		}
		key, err := base64.RawURLEncoding.DecodeString(encoded)
		of := string(key)
		if err != nil || !made.Match(key) || session.ValidateKey(of) != nil || !r.Token.Sees(of) || !r.Token.May(gateway.Read) {
			return notReferred(i, s.item)
		}
		items, read := turns[of+" "+turn]
		if !read {
			if items, err = a.itemsOfTurn(ctx, of, turn); err != nil {
				return err
			}
			turns[of+" "+turn] = items
		}
		found := false
		for _, item := range items {
			if id, bytes := about(item); id == s.item {
				found, size = true, size+bytes
				all[i] = stated(item)
			}
		}
		switch {
		case !found:
			return notReferred(i, s.item)
		case size > turnTexts:
			return refuse(fmt.Sprintf("input[%d]", i), "The items that the input refers to have more than %d MiB: leave the oldest out.", turnTexts>>20)
		}
	}
	return nil
}

func notReferred(i int, id string) error {
	return refuse(fmt.Sprintf("input[%d]", i), "There is no item %.100q to refer to: send whole items, as the AI SDK does with store: false, or name the conversation that has it.", id)
}

// stated is one of the agent's items as it would have been sent.
func stated(item any) statement {
	s := statement{role: roleAssistant}
	switch i := item.(type) {
	case textItem:
		s.text = textOf([]any{i})
	case callItem:
		s.calls = []session.ToolUse{{Name: i.Name, CallID: i.CallID, Input: arguments(i.Arguments), Client: true}}
	}
	return s
}

// itemsOfTurn are the items of a turn in a session's current transcript, none if it has none. One that went on after a
// worker's death has its items' IDs from its first run, and its entries from its last.
func (a *API) itemsOfTurn(ctx context.Context, sessionKey, turn string) ([]any, error) {
	of, err := a.transcript(ctx, sessionKey, "")
	if err != nil {
		return nil, err
	}
	entries, err := of.turn(ctx, turn)
	if err != nil || len(entries) > 0 {
		return itemsOf(sessionKey, turn, entries), err
	}
	place, err := of.before(ctx, fenceOf(turn))
	if err != nil {
		return nil, err
	}
	err = of.turns(ctx, place, true, func(next []session.Entry) bool {
		entries = next
		return false
	})
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	m, err := a.client.Session(sessionKey).Message(ctx, entries[0].Message)
	switch {
	case errors.Is(err, session.ErrNotFound), err == nil && (m.Outcome == nil || m.Outcome.Continues != turn):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return itemsOf(sessionKey, turn, entries), nil
}

package openai

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"turnstile/pkg/session"
)

// An item's ID names its turn, so that it is found without reading the transcript: kind_TURN_N of the agent's items,
// kind_in_TURN_MESSAGE of a user's. The input items of a response name no turn; they are found while the response is
// stored. The agent's items in a session that was made for a request are kind_TURN.SESSION_N: a request that refers to
// one names no session. Who knows such an ID has got the item, since the session's key is random.
var (
	ofAgent = regexp.MustCompile(`^(msg|fc|mcp)_([0-9a-f]{8}-[0-9]{1,16})(?:-earlier)?(?:\.([A-Za-z0-9_-]+))?_[0-9]{1,9}$`)
	made    = regexp.MustCompile(responseSession + `(?:[a-z2-7]{26}|[0-9a-f]{32})$`)
	ofUser  = regexp.MustCompile(`^(msg_in_|fco_in_)([0-9a-f]{8}-[0-9]{1,16}_)?([A-Za-z0-9._:@+=~-]{1,128})(_[0-9]{1,9})?$`)
)

// itemID is the ID of an agent's nth item in a turn, the same in a stream and in the response.
func itemID(kind, turn string, n int) string { return fmt.Sprintf("%s_%s_%d", kind, turn, n) }

// turnName is a turn as the IDs of its agent's items have it.
func turnName(sessionKey, turn string) string {
	if made.MatchString(sessionKey) {
		turn += "." + base64.RawURLEncoding.EncodeToString([]byte(sessionKey))
	}
	return turn
}

// inputID is the ID of an item of a message. turn is "" for the input of a response.
func inputID(kind, turn, message string) string {
	if turn == "" {
		return kind + "_in_" + message
	}
	return kind + "_in_" + turn + "_" + message
}

// turnOf returns the turn that an item's ID names, and the ID as lists have it. turn is "" if it is the ID of no item.
func (a *API) turnOf(ctx context.Context, sessionKey, id string) (turn, listed string, err error) {
	if parts := ofAgent.FindStringSubmatch(id); parts != nil {
		return parts[2], id, nil
	}
	parts := ofUser.FindStringSubmatch(id)
	switch {
	case parts == nil:
		return "", id, nil
	case parts[2] != "":
		return strings.TrimSuffix(parts[2], "_"), id, nil
	}
	m, err := a.client.Session(sessionKey).Message(ctx, parts[3])
	switch {
	case errors.Is(err, session.ErrNotFound) || err == nil && (m.Outcome == nil || m.Outcome.Turn == ""):
		return "", id, nil
	case err != nil:
		return "", id, err
	}
	return m.Outcome.Turn, parts[1] + m.Outcome.Turn + "_" + parts[3] + parts[4], nil
}

package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"turnstile/internal/text/printable"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// deadLetter is a dead letter, as `worker dead --json` prints it.
type deadLetter struct {
	Session string         `json:"session"`
	ID      string         `json:"id"`
	Status  session.Status `json:"status"`
	Error   string         `json:"error"`
	Text    string         `json:"text"`
	Cut     bool           `json:"text_cut,omitempty"` // the text is only the beginning
	At      time.Time      `json:"at"`
	AgeMS   int64          `json:"age_ms"`
}

// deadLetters is a list of dead letters.
type deadLetters struct {
	Dead []deadLetter `json:"dead"`
	More bool         `json:"more"` // there are more than the limit allows
	broken
}

// getDead lists dead letters: of one session, or of all that the token sees.
func (g *Gateway) getDead(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("session", "limit"); err != nil {
		return err
	}
	limit, err := r.Number("limit", 1, pageMost, pageDefault)
	if err != nil {
		return err
	}
	dead, more, unread, err := collect(g, r, limit, admin.StateDeadLetters, deadHeads)
	if err != nil {
		return err
	}
	list := deadLetters{Dead: []deadLetter{}, More: more, broken: unread}
	for _, d := range dead {
		list.Dead = append(list.Dead, deadOf(d))
	}
	return Respond(w, http.StatusOK, list)
}

// broken are the sessions of a list that could not be read, because a key has a wrong type.
type broken struct {
	Broken []string `json:"broken,omitempty"`
}

// deadHeads visits dead letters without the most of their texts.
func deadHeads(s *admin.Session, ctx context.Context) iter.Seq2[admin.DeadLetter, error] { //nolint:revive // as a method
	return func(yield func(admin.DeadLetter, error) bool) {
		for d, err := range s.DeadLetters(ctx) {
			text := printable.Head(d.Text, printable.HeadMost)
			d.Cut = len(text) < len(d.Text)
			d.Message = session.Message{ID: d.ID, Text: text}
			if !yield(d, err) {
				return
			}
		}
	}
}

// collect reads items of the session in the query, or of all sessions in a state that the token sees,
// up to the limit. more reports that items are left.
func collect[T any](
	g *Gateway, r *Request, limit int, state admin.State, of func(*admin.Session, context.Context) iter.Seq2[T, error],
) (all []T, more bool, unread broken, err error) {
	sessions := g.deps.Admin.Sessions(r.Work(), admin.Query{State: state})
	one := r.URL.Query().Get("session")
	if key := one; key != "" {
		if err := r.sees(key); err != nil {
			return nil, false, unread, err
		}
		sessions = func(yield func(admin.SessionInfo, error) bool) {
			yield(admin.SessionInfo{Info: session.Info{Session: key}}, nil)
		}
	}
	for s, err := range sessions {
		if err != nil {
			return nil, false, unread, err
		}
		if !r.Token.Sees(s.Session) {
			continue
		}
		for item, err := range of(g.deps.Admin.Session(s.Session), r.Work()) {
			if errors.Is(err, session.ErrBroken) && one == "" {
				unread.Broken = append(unread.Broken, s.Session)
				break
			}
			if err != nil {
				return nil, false, unread, err
			}
			if len(all) == limit {
				return all, true, unread, nil
			}
			all = append(all, item)
		}
	}
	return all, false, unread, nil
}

// sees fails unless a session that the request names exists for its token.
func (r *Request) sees(sessionKey string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	if !r.Token.Sees(sessionKey) {
		return unknownSession(sessionKey)
	}
	return nil
}

func deadOf(d admin.DeadLetter) deadLetter {
	return deadLetter{d.Session, d.ID, d.Outcome.Status, d.Outcome.Why(), d.Text, d.Cut, d.At.UTC(), d.Age.Milliseconds()}
}

// postDeadRerun requeues a session's stopped and failed dead letters: all, or those that the body names.
func (g *Gateway) postDeadRerun(w http.ResponseWriter, r *Request) error {
	var body struct {
		Session  string   `json:"session"`
		Messages []string `json:"messages"`
	}
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	if err := r.sees(body.Session); err != nil {
		return err
	}
	for _, id := range body.Messages {
		if err := session.ValidateID(id); err != nil {
			return err
		}
	}
	if body.Messages == nil {
		body.Messages = []string{admin.All}
	}
	n, err := g.deps.Admin.Session(body.Session).As(r.Token.Name).Rerun(r.Work(), body.Messages...)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, rerun{body.Session, n})
}

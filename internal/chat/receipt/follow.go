package receipt

import (
	"context"

	"turnstile"
	"turnstile/pkg/session"
)

// Follow calls see for a message's events after an ID ("" for all), and returns the message's outcome.
// The last piece of a reply, which has no ID, gets that of its turn's end, so another program can
// continue after it. An end that the stream has lost is in the outcome only. An error of see ends the
// call.
func Follow(ctx context.Context, chat *turnstile.Session, id, after string, see func(session.Event) error) (session.Outcome, error) {
	var piece *session.Event // the end of a reply; its turn's end is next
	for e, err := range chat.Events(ctx, turnstile.EventsOf(id), turnstile.EventsAfter(after)) {
		switch {
		case err != nil:
			return session.Outcome{}, err
		case e.Type == session.EventText && e.ID == "":
			piece = &e
			continue
		case piece != nil:
			piece.ID = e.ID
			if err := see(*piece); err != nil {
				return session.Outcome{}, err
			}
			piece = nil
		}
		if e.ID == "" { // made from the outcome
			continue
		}
		if err := see(e); err != nil {
			return session.Outcome{}, err
		}
	}
	return chat.Wait(ctx, id)
}

// Shown adapts a function that shows events to a person to Follow. It gets all events but the end,
// since the outcome is shown.
func Shown(show func(session.Event)) func(session.Event) error {
	return func(e session.Event) error {
		if e.Type != session.EventTurnEnded {
			show(e)
		}
		return nil
	}
}

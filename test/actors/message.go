package actors

import (
	"context"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// Option changes a message to send.
type Option = func(*turnstile.Message)

// With returns the message with options.
func With(m turnstile.Message, options ...Option) turnstile.Message {
	for _, option := range options {
		option(&m)
	}
	return m
}

// Delay delays a message.
func Delay(d time.Duration) Option { return func(m *turnstile.Message) { m.Delay = d } }

// After has a message follow another one.
func After(id string) Option { return func(m *turnstile.Message) { m.After = id } }

// ReplyTo routes a message's outcome.
func ReplyTo(r wire.Route) Option {
	return func(m *turnstile.Message) {
		m.ReplyTo, m.ReplyContext, m.ReplyBy, m.ReplyWithin = r.To, r.Context, r.By, r.Within
	}
}

// Follow calls see for a message's events but for its end, and returns its outcome.
func Follow(ctx context.Context, chat *turnstile.Session, id string, see func(session.Event)) (session.Outcome, error) {
	return FollowFrom(ctx, chat, id, "", see)
}

// FollowFrom is Follow that begins after an event.
func FollowFrom(ctx context.Context, chat *turnstile.Session, id, after string, see func(session.Event)) (session.Outcome, error) {
	return receipt.Follow(ctx, chat, id, after, receipt.Shown(see))
}

// Events calls see for a session's stored events until it returns an error.
func Events(ctx context.Context, chat *turnstile.Session, after string, see func(session.Event) error) error {
	for e, err := range chat.Events(ctx, turnstile.EventsAfter(after), turnstile.EventsStored()) {
		if err == nil {
			err = see(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MessageState returns a message's state, and its outcome if it ended.
func MessageState(ctx context.Context, chat *turnstile.Session, id string) (state string, o session.Outcome, ended bool, err error) {
	m, err := chat.Message(ctx, id)
	if m.Outcome != nil {
		o = *m.Outcome
	}
	return string(m.State), o, m.Outcome != nil, err
}

// Result returns a message's outcome, if it ended.
func Result(ctx context.Context, chat *turnstile.Session, id string) (o session.Outcome, ended bool, err error) {
	_, o, ended, err = MessageState(ctx, chat, id)
	return o, ended, err
}

// Cancel cancels a message, with running also its turn. ended says that its outcome is known.
func Cancel(ctx context.Context, chat *turnstile.Session, id string, running bool) (o session.Outcome, ended bool, err error) {
	if !running {
		o, err = chat.Cancel(ctx, id)
		return o, err == nil, err
	}
	if err := chat.CancelTurn(ctx, id); err != nil {
		return o, false, err
	}
	return Result(ctx, chat, id)
}

// Transcript returns all entries of a transcript.
func Transcript(ctx context.Context, chat *turnstile.Session, id string) ([]session.Entry, error) {
	page, err := chat.Transcript(ctx, turnstile.TranscriptQuery{ID: id, Limit: session.NoLimit})
	return page.Entries, err
}

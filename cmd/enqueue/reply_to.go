package main

import (
	"context"
	"errors"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// setReplyTo sets the destination for the session's later messages.
func setReplyTo(ctx context.Context, o options, out *output) func(*turnstile.Client, redis.UniversalClient) (int, error) {
	destination := o.replyTo
	if destination == session.NoReply {
		destination = ""
	}
	return func(client *turnstile.Client, rdb redis.UniversalClient) (int, error) {
		defer context.AfterFunc(ctx, func() { _ = rdb.Close() })()
		if err := client.Session(o.session).SetReplyTo(ctx, destination); err != nil {
			return 0, setFailure(ctx, o.session, err)
		}
		switch {
		case o.json:
			out.object(struct {
				Session string `json:"session"`
				ReplyTo string `json:"reply_to"`
			}{o.session, destination})
		case destination == "":
			out.text("session " + o.session + " has no destination\n")
		default:
			out.text("outcomes of later messages of session " + o.session + " go to " + destination + "\n")
		}
		return exitOK, nil
	}
}

// setFailure is the failure of a setting that was not stored, or may not have been.
func setFailure(ctx context.Context, key string, err error) failure {
	f := failure{session: key, code: exitOther, text: redisconn.Explain(err)}
	if ctx.Err() != nil {
		f.code, f.text = exitInterrupted, "interrupted before Redis responded"
	}
	if errors.Is(err, session.ErrUnchanged) {
		f.text += "; nothing was changed"
	} else {
		f.text += "; the destination may be set: it is safe to set it again"
	}
	return f
}

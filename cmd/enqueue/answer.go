package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// answer gives a value to the turn that waits for it.
func answer(ctx context.Context, o options, value string, out *output) func(*turnstile.Client, redis.UniversalClient) (int, error) {
	return func(client *turnstile.Client, rdb redis.UniversalClient) (int, error) {
		defer context.AfterFunc(ctx, func() { _ = rdb.Close() })()
		err := client.Session(o.session).As(o.user).Give(ctx, turnstile.Value{Key: o.answer, JSON: json.RawMessage(value)})
		switch {
		case err != nil:
			return 0, answerFailure(ctx, o.session, err)
		case o.json:
			out.object(struct {
				Session string `json:"session"`
				Answer  string `json:"answer"`
			}{o.session, o.answer})
		default:
			out.text("the turn of session " + o.session + " has the value of " + o.answer + "\n")
		}
		return exitOK, nil
	}
}

// answerFailure is the failure of a value that was not stored, or may not have been.
func answerFailure(ctx context.Context, key string, err error) failure {
	f := failure{session: key, code: exitOther, text: redisconn.Explain(err)}
	switch {
	case errors.Is(err, session.ErrInvalid):
		f.code = exitUsage
	case errors.Is(err, session.ErrRefused):
		f.code = exitRefused
	case ctx.Err() != nil:
		f.code, f.text = exitInterrupted, "interrupted before Redis responded"
	}
	if !errors.Is(err, session.ErrUnchanged) {
		f.text += "; the turn may have the value: it is safe to give it again"
	}
	return f
}

// value is the value of the arguments.
func (o options) value(ctx context.Context, words []string, stdin io.Reader) (string, error) {
	if len(words) == 1 && words[0] == "-" {
		return o.readText(ctx, stdin)
	}
	return strings.Join(words, " "), nil
}

package slash

import (
	"context"

	"turnstile/pkg/session"
)

type userKey struct{}

// WithUser sets the user for whom commands and decisions are carried out, named like a message's
// sender.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// User returns the user of WithUser, "" if there is none.
func User(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

type checkKey struct{}

// WithCheck sets the check that runs just before a decision about the question with this number is made;
// 0 is the open one. The check returns an error if the user may not decide. It also returns the question
// that it checked: the decision counts for no other one, so for none if none was open, and in no other
// turn. Without a Turn it counts in any. With session.ErrOtherQuestion it returns the open question.
func WithCheck(ctx context.Context, check func(ctx context.Context, number int) (session.Question, error)) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// Check runs the check of WithCheck, and reports whether there is one.
func Check(ctx context.Context, number int) (q session.Question, checked bool, err error) {
	if check, ok := ctx.Value(checkKey{}).(func(context.Context, int) (session.Question, error)); ok {
		q, err = check(ctx, number)
		return q, true, err
	}
	return q, false, nil
}

package slash

import "context"

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

// WithCheck sets the check that runs just before a decision is made. The check returns an error if the
// user may not decide. It also returns the turn that it checked: the decision counts in no other turn.
// "" means any turn.
func WithCheck(ctx context.Context, check func(context.Context) (turn string, err error)) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// Check runs the check of WithCheck, if there is one.
func Check(ctx context.Context) (turn string, err error) {
	if check, ok := ctx.Value(checkKey{}).(func(context.Context) (string, error)); ok {
		return check(ctx)
	}
	return "", nil
}

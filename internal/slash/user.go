package slash

import "context"

type userKey struct{}

// WithUser names the user for whom commands and decisions are carried out, as a message's sender would
// be named.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// User is the user that WithUser has named, "" if there is none.
func User(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

type checkKey struct{}

// WithCheck sets the check that runs just before a decision is made. It returns an error if the user may
// not decide, and the turn that it has checked: the decision counts in no other. "": in any.
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

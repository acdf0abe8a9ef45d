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

// Decides reports whether the command decides an agent's question.
func (cmd Command) Decides() bool { return cmd.Name == "/approve" || cmd.Name == "/deny" }

package slash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"turnstile/pkg/session"
)

// approve and deny take [NUMBER]; approve also takes [always].
func approve(ctx context.Context, c Operations, args string) (string, error) {
	d, words := session.Allow, strings.Fields(args)
	if n := len(words); n > 0 && words[n-1] == "always" {
		d, words = session.Always, words[:n-1]
	}
	return decide(ctx, c, "/approve [NUMBER] [always]", words, d)
}

func deny(ctx context.Context, c Operations, args string) (string, error) {
	return decide(ctx, c, "/deny [NUMBER]", strings.Fields(args), session.Deny)
}

func decide(ctx context.Context, c Operations, usage string, words []string, d session.Decision) (string, error) {
	number := 0
	if len(words) > 0 {
		number, _ = strconv.Atoi(words[0])
		if number < 1 || len(words) > 1 {
			return "", argsError("Write it as " + usage + ". Nothing was decided.")
		}
	}
	q, err := c.DecideNumber(ctx, number, d)
	switch {
	case errors.Is(err, session.ErrNoQuestion):
		return "There is no open question.", nil
	case errors.Is(err, session.ErrDecided):
		return "That question was already decided.", nil
	case errors.Is(err, session.ErrOtherQuestion):
		return fmt.Sprintf("Question %d is no longer open; question %d is: %s.", number, q.Number, q.Name), nil
	case errors.Is(err, session.ErrJustAsked):
		return fmt.Sprintf("Nothing was decided: question %d is new, %s. Write /approve %[1]d or /deny %[1]d", q.Number, q.Name), nil
	case err != nil:
		return "", err
	case d == session.Deny:
		return fmt.Sprintf("Denied question %d: %s.", q.Number, q.Name), nil
	}
	return fmt.Sprintf("Approved question %d: %s.", q.Number, q.Name), nil
}

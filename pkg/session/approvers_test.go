package session_test

import (
	"errors"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestApprovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		approver, who string
		may           bool
	}{
		{"sender", "web/alice", true}, {"sender", "web/bob", false}, {"sender", "sender", false},
		{"anyone", "web/bob", true},
		{"web/bob", "web/bob", true}, {"web/bob", "web/bobby", false}, {"web/bob", "web", false}, {"web/bob", "xweb/bob", false},
		{"ops/*", "ops/carol", true}, {"ops/*", "ops/", true}, {"ops/*", "ops", false}, {"ops/*", "ops2/carol", false},
		{"ops", "ops", true}, {"ops", "ops/carol", false}, {"*", "ops", true}, {"*", "ops/carol", false}, {"*/carol", "ops/carol", true},
		{"acme/" + strings.Repeat("a*", 100) + "b", "acme/" + strings.Repeat("a", 200), false}, // with backtracking this would never end
		{"o*s/c*l", "ops/carol", true}, {"o*s/c*l", "ops/carola", false},
	} {
		q := session.Question{Approvers: []string{"nobody", c.approver}, Senders: []string{"web/alice"}}
		if got := q.MayDecide(c.who); got != c.may {
			t.Errorf("%s for the approver %s: %v, want %v", c.who, c.approver, got, c.may)
		}
	}
	for _, who := range []string{"web/alice", "ops/carol", "ops"} {
		for _, q := range []session.Question{{Approvers: []string{session.ApproveSender}, Senders: []string{who}}, {Approvers: []string{who}, Senders: []string{"web/bob"}}} {
			for _, other := range expect.Near(who) {
				if !q.MayDecide(who) || q.MayDecide(other) {
					t.Errorf("%q decides as %q, or %q does not: %+v", other, who, who, q)
				}
			}
		}
	}
	if (session.Question{Senders: []string{"web/alice"}}).MayDecide("web/alice") {
		t.Error("without approvers somebody may decide")
	}
	for _, good := range []string{"sender", "anyone", "*", "*/*", "web/a.b-c", "o*"} {
		if err := session.ValidateApprovers([]string{good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a b", "web/", "/alice", "web/a/b", "web/\u202e", "-x"} {
		if err := session.ValidateApprovers([]string{"sender", bad}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

package admin

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// AuditEntry is something that somebody did to a session.
type AuditEntry struct {
	At time.Time // by Redis' clock

	// By is who did it: what turnstile.Session.As or Session.As was given. A gateway gives its token's name, a
	// slash and the user, enqueue and worker the operating system's user. "" is unknown.
	By string

	// Did is allow, always, deny, stop, cancel, undo, retry, new, rerun, queue or reply_to.
	Did string

	// What is the question's ID of allow, always and deny, the turn of stop, undo and retry, the message of
	// cancel, the agent of new, the number of messages of rerun, the setting of queue and reply_to. "": there
	// is none, or the same as before.
	What string
}

// Audit returns who has decided, stopped or changed something in the session, the oldest entry first: the last
// 1,000, until 30 days after the newest. The script that makes a change writes the entry, so there is
// one for each, whatever replies were lost. An erase deletes it, and it ends with the session's record. Programs with the rights of a sender can
// write it, too.
func (s *Session) Audit(ctx context.Context) ([]AuditEntry, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return nil, err
	}
	lines, err := protocol.Audit(ctx, s.admin.rdb, s.key)
	if err != nil {
		return nil, fmt.Errorf("read the audit of %s: %w", s.key, broken(err))
	}
	list := make([]AuditEntry, len(lines))
	for i, l := range lines {
		list[i] = AuditEntry(l)
	}
	return list, nil
}

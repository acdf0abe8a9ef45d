package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// SenderSession is a session with messages of a sender, as it was when SessionsOf looked.
type SenderSession struct {
	Session string

	// Shared: it has messages of other senders, too, or some without a sender or that cannot be read.
	Shared bool

	AgentState json.RawMessage // what the agent has stored: usually the ID of its own session

	admin   *Client
	sender  string
	fence   string   // of the last turn before the look
	running bool     // it ran then: somebody may have steered it since
	keys    []string // of the session
	waiting []string // IDs of the sender's messages that wait
}

// SenderData is an entry of a transcript, or a message that is stored. Its JSON is a line of `worker export`.
type SenderData struct {
	Session    string               `json:"session"`
	Transcript string               `json:"transcript,omitempty"` // the ID, of an Entry
	Entry      *session.Entry       `json:"entry,omitempty"`
	State      session.MessageState `json:"state,omitempty"` // of a Message
	Message    *session.Message     `json:"message,omitempty"`
	Outcome    *session.Outcome     `json:"outcome,omitempty"` // if the message ended, and the session is not shared
}

// senderPage is how many sessions SessionsOf looks at in one scan of the database.
const senderPage = 100

// SessionsOf visits the sessions with messages whose meta.sender is this one, in the order of their
// keys: in any transcript, in the queue, among results and dead letters. There is no index of
// senders: it reads every message and transcript in Redis, and scans all keys once more for each 100
// sessions that it visits. It holds the keys of the sender's sessions, and one transcript. A message
// that arrives meanwhile may be missed.
//
// A session that cannot be read may have messages of the sender: it comes with an error that
// wraps session.ErrBroken, without anything but its key, and the others follow.
func (a *Client) SessionsOf(ctx context.Context, sender string) iter.Seq2[*SenderSession, error] {
	return func(yield func(*SenderSession, error) bool) {
		err := a.eachOf(ctx, sender, yield)
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, fmt.Errorf("look for messages of %.100q: %w", sender, err))
		}
	}
}

func (a *Client) eachOf(ctx context.Context, sender string, see func(*SenderSession, error) bool) error {
	if sender == "" {
		return fmt.Errorf("%w sender: it is empty", session.ErrInvalid)
	}
	found := map[string]bool{}
	err := maintenance.Scan(ctx, a.rdb, "*{"+rediskey.Queue("*")+"}:t*", func(keys []string) error { // tasks and transcripts
		of := map[string][]string{}
		for _, name := range keys {
			if key, _, ok := rediskey.Parse(name); ok && !found[key] && session.ValidateKey(key) == nil {
				of[key] = append(of[key], name)
			}
		}
		for key, names := range of {
			own, err := (&SenderSession{Session: key, admin: a, sender: sender, keys: names}).look(ctx)
			isBroken := redisconn.WrongType(err) // lookAt tells it
			if err != nil && !isBroken {
				return err
			}
			if own || isBroken {
				found[key] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for page := range slices.Chunk(slices.Sorted(maps.Keys(found)), senderPage) {
		if err := a.lookAt(ctx, sender, page, see); err != nil {
			return err
		}
	}
	return nil
}

// lookAt visits the sessions of a page. It reads the run records before anything else, so that an
// Erase notices every turn that the look has not seen.
func (a *Client) lookAt(ctx context.Context, sender string, page []string, see func(*SenderSession, error) bool) error {
	all, records := map[string]*SenderSession{}, make([]*redis.SliceCmd, len(page))
	cmds, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range page {
			records[i] = p.HMGet(ctx, rediskey.For(key).Run(), "fence", "phase")
		}
		return nil
	})
	if err := redisconn.Failure(cmds, err); err != nil {
		return err
	}
	for i, key := range page {
		run := script.HashFields(records[i])
		running := run.Text("phase") != "" && run.Text("phase") != string(session.PhaseIdle)
		all[key] = &SenderSession{Session: key, admin: a, sender: sender, fence: run.Text("fence"), running: running}
	}
	err = maintenance.Scan(ctx, a.rdb, "*{"+rediskey.Queue("*")+"}:*", func(keys []string) error {
		for _, name := range keys {
			key, _, _ := rediskey.Parse(name)
			if s := all[key]; s != nil {
				s.keys = append(s.keys, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, key := range page {
		s := all[key]
		slices.Sort(s.keys)
		s.keys = slices.Compact(s.keys) // a scan may return a key twice
		own, err := s.look(ctx)
		if err == nil {
			s.AgentState, err = a.agentState(ctx, key)
		}
		goOn := true
		switch err = cmp.Or(err, records[i].Err()); {
		case redisconn.WrongType(err):
			goOn = see(&SenderSession{Session: key}, fmt.Errorf("read session %s: %w", key, broken(err)))
		case err != nil:
			return err
		case own:
			goOn = see(s, nil)
		}
		if !goOn {
			return errEnough
		}
	}
	return nil
}

func (a *Client) agentState(ctx context.Context, sessionKey string) (json.RawMessage, error) {
	text, err := a.rdb.Get(ctx, rediskey.For(sessionKey).State()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var stored struct{ Data json.RawMessage }
	_ = json.Unmarshal([]byte(text), &stored) // nil if it cannot be read
	return stored.Data, nil
}

// look reads who speaks in the session, and which messages of the sender wait.
func (s *SenderSession) look(ctx context.Context) (own bool, err error) {
	err = s.each(ctx, func(d SenderData) bool {
		switch who, speaks := d.speaker(); {
		case !speaks:
			return true
		case who != s.sender:
			s.Shared = true
			return true
		}
		own = true
		switch d.State {
		case session.MessagePending, session.MessageScheduled, session.MessageRetry:
			s.waiting = append(s.waiting, d.Message.ID)
		}
		return true
	})
	return own, err
}

// speaker is the sender of a message, "" if there is none or it cannot be read. An entry of the agent
// has no speaker.
func (d SenderData) speaker() (sender string, speaks bool) {
	switch {
	case d.Message != nil:
		return d.Message.Meta["sender"], true
	case d.Entry.Role == session.RoleUser:
		return d.Entry.Meta["sender"], true
	}
	return "", d.Entry.Role == session.RoleSystem
}

// Data visits what the sender's person may ask for: the entries and messages of the sender, and in a
// session that is not shared all entries, also replies and tools, and outcomes. It leaves out what
// came after SessionsOf has looked. A message that ended is often both an entry and a message.
func (s *SenderSession) Data(ctx context.Context) iter.Seq2[SenderData, error] {
	return visited(s.Session, func(visit func(SenderData) bool) error {
		return s.each(ctx, func(d SenderData) bool {
			who, speaks := d.speaker()
			if e := d.Entry; e != nil && s.later(*e) || speaks && who != s.sender || !speaks && s.Shared {
				return true
			}
			if s.Shared {
				d.Outcome = nil
			}
			return visit(d)
		})
	})
}

// later reports whether an entry is of a turn after the look.
func (s *SenderSession) later(e session.Entry) bool {
	fence, _ := strings.CutPrefix(e.Turn, rediskey.IDPrefix(s.Session))
	return s.fence != "" && script.Number(fence) > script.Number(s.fence) // the run record may have expired
}

// each visits the transcripts of the session's keys, the oldest entry first, and the messages, until
// visit returns false.
func (s *SenderSession) each(ctx context.Context, visit func(SenderData) bool) error {
	k := rediskey.For(s.Session)
	var tasks []string
	for _, key := range s.keys {
		if id, ok := strings.CutPrefix(key, k.TaskPrefix()); ok {
			tasks = append(tasks, id)
		}
		id, ok := strings.CutPrefix(key, k.TranscriptPrefix())
		if !ok {
			continue
		}
		entries, err := s.transcript(ctx, id)
		if err != nil {
			return fmt.Errorf("read transcript of %s: %w", s.Session, err)
		}
		for i := range entries {
			if !visit(SenderData{Session: s.Session, Transcript: id, Entry: &entries[i]}) {
				return nil
			}
		}
	}
	for some := range slices.Chunk(tasks, messageBatch) {
		list, err := s.messages(ctx, some)
		if err != nil {
			return fmt.Errorf("read messages of %s: %w", s.Session, err)
		}
		for _, d := range list {
			if !visit(d) {
				return nil
			}
		}
	}
	return nil
}

// transcript reads a transcript, 2 MiB at a time.
func (s *SenderSession) transcript(ctx context.Context, id string) ([]session.Entry, error) {
	var lines []string
	for left := int64(-1); left != 0; {
		older, page, err := protocol.TranscriptPage(ctx, s.admin.rdb, s.Session, id, left, protocol.HistoryPage, 0)
		if err != nil {
			return nil, err
		}
		if lines, left = append(lines, page...), older; len(page) == 0 {
			break
		}
	}
	slices.Reverse(lines)
	return protocol.DecodeEntries(lines), nil
}

// messages reads the messages of tasks, in one round trip.
func (s *SenderSession) messages(ctx context.Context, ids []string) (list []SenderData, err error) {
	chat := s.admin.Session(s.Session)
	tasks := make([]*redis.SliceCmd, len(ids))
	cmds, err := s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			tasks[i] = p.HMGet(ctx, chat.keys().Task(id), "msg", "state", "result")
		}
		return nil
	})
	if err := redisconn.Failure(cmds, err); err != nil {
		return nil, err
	}
	for i, id := range ids {
		t := script.HashFields(tasks[i])
		m, _, _ := chat.message(id, t.Text("msg")) // one that cannot be read has no sender
		d := SenderData{Session: s.Session, Message: &m, State: session.MessageState(t.Text("state"))}
		switch d.State {
		case "":
			continue // it is gone
		case "active":
			d.State = session.MessageRunning
		case session.MessageCompleted, session.MessageArchived:
			o := stream.StoredOutcome(s.Session, m.ID, t.Text("state"), t.Text("result"))
			d.Outcome = &o
		}
		list = append(list, d)
	}
	return list, nil
}

// Erase erases the session, as Session.Erase does, if nobody else has used it since SessionsOf looked.
// It first cancels the sender's messages that wait.
//
// The error wraps session.ErrInvalid if the session is shared, and session.ErrBusy if a turn ran when
// SessionsOf looked or later, or a message has arrived: visit the session again. Waiting messages may
// be cancelled then, and of more than 500 messages some deleted, all of this sender. Only a message of
// another sender that arrives and is cancelled at once, without a turn, is deleted with the session.
func (s *SenderSession) Erase(ctx context.Context, opts ...EraseOption) error {
	var o eraseOptions
	for _, set := range opts {
		set(&o)
	}
	if s.Shared {
		return fmt.Errorf("%w erase: others have messages in session %s, too", session.ErrInvalid, s.Session)
	}
	err := s.erase(ctx, o.undelivered)
	if used := (*maintenance.UsedError)(nil); errors.As(err, &used) {
		return fmt.Errorf("%w, has run or is to run in session %s", session.ErrBusy, s.Session)
	}
	return eraseError(s.Session, err)
}

func (s *SenderSession) erase(ctx context.Context, undelivered bool) error {
	switch u, err := s.admin.Session(s.Session).Undelivered(ctx); {
	case err != nil:
		return err
	case s.running:
		return session.ErrBusy
	case !undelivered && u != Undelivered{}:
		return session.ErrUndelivered
	}
	keys := slices.Clone(s.keys)
	for _, id := range s.waiting {
		c := protocol.Cancel{Session: s.Session, ID: id, Call: rand.Text(), Until: math.MaxInt64, Limits: s.admin.cfg.Limits}
		if _, err := c.Do(ctx, s.admin.rdb); err != nil {
			return err
		}
		keys = append(keys, rediskey.For(s.Session).Call(c.Call))
	}
	return maintenance.Erase{
		Session: s.Session, Undelivered: undelivered, Unused: time.Millisecond, Fence: &s.fence,
		List: func() ([]string, error) { return keys, nil },
	}.Do(ctx, s.admin.rdb)
}

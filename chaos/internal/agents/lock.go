package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"turnstile/test/history"
)

// Folders of a run's directory, for agents.
const (
	locksDir   = "locks"
	HistoryDir = "history"
)

// recorder is an agent's side of the history.
type recorder struct {
	dir  string
	kind string
	log  *history.Log
}

func newRecorder(dir, kind string) (*recorder, error) {
	if err := os.MkdirAll(filepath.Join(dir, locksDir), 0o755); err != nil {
		return nil, err
	}
	log, err := history.Open(filepath.Join(dir, HistoryDir), "agents")
	return &recorder{dir, kind, log}, err
}

// turn is one run of an agent. Its lock belongs to the kernel: it ends with the process, however
// the process dies.
type turn struct {
	r    *recorder
	lock *os.File
	rec  history.Record
}

// begin takes the session's lock without waiting for it. If another agent has it, two run at once,
// and the record says so.
func (r *recorder) begin(rec history.Record) (*turn, error) { return r.beginWithin(rec, 0) }

// beginWithin is begin that waits for the lock for a while.
func (r *recorder) beginWithin(rec history.Record, patience time.Duration) (*turn, error) {
	sum := sha256.Sum256([]byte(rec.Session))
	f, err := os.OpenFile(filepath.Join(r.dir, locksDir, hex.EncodeToString(sum[:8])), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	rec.Kind, rec.Via, rec.PID = history.Turn, r.kind, os.Getpid()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		rec.Overlap = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
		if !rec.Overlap || time.Now().After(end) {
			break
		}
	}
	r.log.Add(rec)
	return &turn{r: r, lock: f, rec: rec}, nil
}

func (t *turn) steered(id string) {
	t.r.log.Add(history.Record{Kind: history.Steered, Session: t.rec.Session, ID: id, Turn: t.rec.Turn, PID: t.rec.PID, Via: t.rec.Via})
}

// step records that the agent does a step of a message, or that its end is stored.
func (t *turn) step(kind, id, name, idempotencyKey string, again bool) {
	t.r.log.Add(history.Record{
		Kind: kind, Session: t.rec.Session, ID: id, Turn: t.rec.Turn, PID: t.rec.PID, Via: t.rec.Via, Name: name, Sum: idempotencyKey, Again: again,
	})
}

// end records the end and then releases the lock.
func (t *turn) end(status string) {
	rec := t.rec
	rec.Kind, rec.Status, rec.At, rec.Seen = history.Ended, status, 0, nil
	t.r.log.Add(rec)
	_ = t.lock.Close()
}

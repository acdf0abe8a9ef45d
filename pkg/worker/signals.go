package worker

import (
	"log/slog"

	"turnstile/internal/protocol"
)

// listener passes requests of senders to the turns.
type listener struct {
	queue  *protocol.Consumer
	roster *roster
	prefer func(session string) // claims a session that may have its warm agent here
	life   *lifecycle
	log    *slog.Logger

	cancels chan string // tasks of asynqmon's Cancel, whose turns may wait without a worker
}

// cancelsMost is how many of them may wait for their search. asynq:cancel has those of other programs, too.
const cancelsMost = 100

// run calls ready when it receives signals, and passes them on until the worker ends.
func (l *listener) run(ready func()) {
	if err := l.queue.Signals(l.life.work, ready, l.receive); err != nil {
		l.log.Error("listening for signals ended; renewals still receive requests", "error", err)
	}
}

func (l *listener) receive(sig protocol.Signal) {
	if sig.Session != "" {
		l.prefer(sig.Session)
		return
	}
	for _, s := range l.roster.all() {
		if fence, runs := s.claim.Runs(sig.TaskID); runs {
			s.apply(fence, sig.Requested, false, protocol.Decided{})
		} else if sig.Token != "" && s.claim.Token() == sig.Token {
			s.apply(sig.Fence, sig.Requested, sig.Steer, sig.Decided)
		}
	}
	if sig.TaskID == "" {
		return
	}
	select {
	case l.cancels <- sig.TaskID: // also if its turn runs here: it may just be parked
	default:
		l.log.Warn("too many cancels at once: if the task's turn waits without a worker, it goes on", "task", sig.TaskID)
	}
}

// cancelWaiting ends turns that wait without a worker, for asynqmon's Cancel.
func (l *listener) cancelWaiting() {
	for {
		select {
		case <-l.life.work.Done():
			return
		case id := <-l.cancels:
			if err := l.queue.CancelWaiting(l.life.work, id); err != nil {
				l.log.Warn("cancel a turn that may wait without a worker", "task", id, "error", err)
			}
		}
	}
}

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
}

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
}

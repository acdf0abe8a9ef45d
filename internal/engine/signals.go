package engine

import "turnstile/internal/protocol"

// listen hears what is asked of this worker's turns.
func (w *Worker) listen(ready func()) {
	err := w.queue.Signals(w.ctx, ready, func(sig protocol.Signal) {
		if sig.Session != "" {
			w.prefer(sig.Session)
			return
		}
		for _, s := range w.snapshot() {
			fence, runs := s.hold.Runs(sig.TaskID)
			switch {
			case runs:
				s.ask(fence, sig.Asked)
			case sig.Token == "" || s.hold.Token() != sig.Token:
			case sig.Reply.Question != 0:
				s.reply(sig.Fence, sig.Reply)
			case sig.Steer:
				s.steer(sig.Fence)
			default:
				s.ask(sig.Fence, sig.Asked)
			}
		}
	})
	if err != nil {
		w.log.Error("listening for signals ended; renewals still learn of them", "error", err)
	}
}

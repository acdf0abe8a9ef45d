package main

import (
	"fmt"
	"sync"
	"time"

	"turnstile/internal/chat/terminal"
	"turnstile/internal/program/service"
	"turnstile/pkg/worker"
)

// viewEvery is how often the view of a drain is updated.
const viewEvery = 200 * time.Millisecond

// showDrain keeps a line with a countdown on a terminal until stop is called. Without a terminal it
// shows nothing.
func showDrain(screen *terminal.Screen, w *worker.Worker, end service.Ending) (stop func()) {
	if screen == nil {
		return func() {}
	}
	over := make(chan struct{})
	var view sync.WaitGroup
	view.Go(func() {
		defer screen.Status("")
		tick := time.NewTicker(viewEvery)
		defer tick.Stop()
		for {
			screen.Status(drainLine(w.Status(), end.Cut.Err() != nil))
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		close(over)
		view.Wait()
	}
}

// drainLine shows the progress of a drain, and the effect of the next Ctrl-C. cut says that there
// was a second one.
func drainLine(p worker.Status, cut bool) string {
	turns := fmt.Sprintf("draining: %d turns running", p.Running)
	if p.Running == 1 {
		turns = "draining: 1 turn running"
	}
	switch {
	case !p.Draining: // it is about to begin
		return ""
	case p.Running == 0:
		return "draining: no turn runs any more"
	case cut:
		return turns + ", being interrupted (Ctrl-C again: end at once)"
	case p.Left == 0:
		return turns + ", being interrupted (Ctrl-C twice: end at once)"
	}
	return fmt.Sprintf("%s, %s left (Ctrl-C again: interrupt them now)", turns, time.Duration(service.Seconds(p.Left))*time.Second)
}

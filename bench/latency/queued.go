package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
)

// queued measures messages that wait for a turn of their session.
type queued struct {
	immediate bool
	load      lab.Load

	gaps []time.Duration // Run left to the session's next Run entered
}

func (q *queued) String() string {
	agent := "with promote and history"
	if q.immediate {
		agent = "immediate agent"
	}
	return fmt.Sprintf("%d in line, %s", q.load.Each, agent)
}

// stopwatch is the echo agent that records the time between a session's turns.
type stopwatch struct {
	*echo.Agent
	immediate bool

	mu   sync.Mutex
	left map[string]time.Time
	gaps []time.Duration
	runs int
}

func (s *stopwatch) Traits() agent.Traits {
	return agent.Traits{Immediate: s.immediate, Steerable: true}
}

func (s *stopwatch) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	entered := time.Now()
	s.mu.Lock()
	if left, ok := s.left[turn.Session]; ok {
		s.gaps = append(s.gaps, entered.Sub(left))
	}
	s.mu.Unlock()
	result, err := s.Agent.Run(ctx, turn)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.left[turn.Session] = time.Now()
	return result, err
}

func (s *stopwatch) ran() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func (q *queued) measure(ctx context.Context, srv *lab.Server) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb, sender := srv.Client(), srv.Client()
	defer rdb.Close()
	defer sender.Close()
	if err := q.load.Fill(ctx, sender, "queued", "hello"); err != nil {
		return err
	}
	watch := &stopwatch{Agent: echo.New(), immediate: q.immediate, left: map[string]time.Time{}}
	w, err := lab.Work(ctx, rdb, watch, lab.Production(1)) // one slot: nothing else runs
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	err = lab.Until(ctx, "the end of the queue", 20*time.Millisecond, func() (bool, error) {
		return watch.ran() == q.load.Messages() && w.Status().Running == 0, nil
	})
	q.gaps = watch.gaps
	return err
}

package main

import (
	"context"
	"fmt"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

// rotateAfter is how many turns a transcript has before another begins: an agent that is not
// immediate receives the history, which would otherwise grow without end.
const rotateAfter = 50

// warmUp is how many samples are dropped, because they pay for connections, scripts and pages.
const warmUp = 50

// idle measures messages that come one at a time to an idle worker.
type idle struct {
	immediate bool // the agent has no start phase: no promote, no history
	fresh     bool // a new session for each sample
	samples   int
	rest      time.Duration

	starts []time.Duration // Send called to Run entered
	sends  []time.Duration // Send called to Send returned
}

func (s *idle) String() string {
	who, agent := "same session", "with promote and history"
	if s.fresh {
		who = "new session"
	}
	if s.immediate {
		agent = "immediate agent"
	}
	return who + ", " + agent
}

// doorbell is the echo agent that reports the start of each turn.
type doorbell struct {
	*echo.Agent
	immediate bool
	entered   chan time.Time
}

func (d doorbell) Traits() agent.Traits {
	return agent.Traits{Immediate: d.immediate, Steerable: true}
}

func (d doorbell) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	d.entered <- time.Now()
	return d.Agent.Run(ctx, turn)
}

func (s *idle) measure(ctx context.Context, srv *lab.Server) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb, sender := srv.Client(), srv.Client()
	defer rdb.Close()
	defer sender.Close()
	bell := doorbell{echo.New(), s.immediate, make(chan time.Time, 1)}
	w, err := worker.New(rdb, bell, lab.Production(10))
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	client := turnstile.NewClient(sender)
	for i := range warmUp + s.samples {
		start, send, err := s.sample(ctx, client, bell, i)
		if err != nil {
			return err
		}
		if i >= warmUp {
			s.starts, s.sends = append(s.starts, start), append(s.sends, send)
		}
		for w.Status().Running > 0 {
			time.Sleep(s.rest / 10)
		}
		time.Sleep(s.rest)
	}
	return nil
}

func (s *idle) sample(ctx context.Context, client *turnstile.Client, bell doorbell, i int) (start, send time.Duration, err error) {
	key := "same"
	if s.fresh {
		key = fmt.Sprintf("new:%d", i)
	} else if i%rotateAfter == 0 {
		if _, err := client.Session(key).NewTranscript(ctx); err != nil {
			return 0, 0, err
		}
	}
	sent := time.Now()
	if _, err := client.Session(key).Send(ctx, turnstile.Message{Text: "hello"}); err != nil {
		return 0, 0, err
	}
	send = time.Since(sent)
	select {
	case at := <-bell.entered:
		return at.Sub(sent), send, nil
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
}

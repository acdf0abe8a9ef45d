package worker

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
)

// stepAside is how long a worker with a paused agent lets others take a session first.
const stepAside = 100 * time.Millisecond

// pauses are the agents that this worker leaves alone for a while, because it could not start them. After a pause one
// turn tries, and further ones a First apart, until one of them shows that the agent works.
type pauses struct {
	backoff.Backoff
	agents int // that the worker has
	log    *slog.Logger

	mu sync.Mutex
	by map[string]pause // by the agent's name
}

// pause is the zero value for an agent that has none.
type pause struct {
	failures int       // in a row
	failed   time.Time // the last of them
	until    time.Time
	why      string
}

func (s pause) over() bool { return !time.Now().Before(s.until) }

func (p *pauses) of(agent string) pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[agent]
}

// fails begins an agent's pause, or a longer one. began is when the failed turn began: of several that fail together
// the first counts.
func (p *pauses) fails(agent string, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.by[agent]
	if began.Before(s.failed) {
		return
	}
	shorter := p.After(s.failures)
	s.failures, s.failed = s.failures+1, time.Now()
	length := p.After(s.failures)
	s.until = s.failed.Add(length)
	words := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "could not start the agent: ")), " ")
	s.why = fmt.Sprintf("cannot start agent %s: %s", agent, protocol.CutText(words, 300)) // heartbeats repeat it
	p.by[agent] = s
	if s.failures == 1 || length > shorter {
		p.log.Warn("an agent cannot be started here; its messages wait, or run on other workers", "agent", agent, "pause", length, "error", err)
	}
}

// works ends an agent's pause, if the turn that shows it began after the last failure.
func (p *pauses) works(agent string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.by[agent]; s.failures > 0 && !began.Before(s.failed) {
		delete(p.by, agent)
		p.log.Info("the agent can be started again", "agent", agent, "failures", s.failures)
	}
}

// tries says that a turn of the agent begins.
func (p *pauses) tries(agent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.by[agent]; s.failures > 0 {
		s.until = time.Now().Add(p.First)
		p.by[agent] = s
	}
}

// unable is Status.Unable.
func (p *pauses) unable() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]string{}
	for agent, s := range p.by {
		all[agent] = s.why
	}
	return all
}

// admit waits until the worker may claim sessions, or done is closed. It returns how many at once: one if an agent is
// to be tried. aside: the worker takes none for which others wait.
func (p *pauses) admit(done <-chan struct{}) (most int, aside bool) {
	for {
		most, paused := claimBatch, 0
		p.mu.Lock()
		for _, s := range p.by {
			if s.over() {
				most = 1
			} else {
				paused++
			}
		}
		p.mu.Unlock()
		if paused == 0 {
			return most, false
		}
		select {
		case <-done:
			return most, true
		case <-time.After(stepAside):
		}
		if paused < p.agents {
			return most, true
		}
	}
}

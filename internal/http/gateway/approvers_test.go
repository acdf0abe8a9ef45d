package gateway_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A question with approvers is decided by one of them, and by nobody else: neither by the sender of the
// message nor by a token that may control, by no route.
func TestApprovers(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]},
		{"name": "ops", "sha256": "SUM", "sessions": ["*"], "may": ["send"]},
		{"name": "eye", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`),
		func(c *gateway.Config) { c.AnyoneDecides = true }).as("bot")
	w, err := worker.New(acl.Client(t, acl.Worker), echo.New(), worker.Config{Approvers: []string{"ops/*"}, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	const at = "/v1/sessions/s/"
	s := r.stream("s", "")
	ask := func() (question string) {
		t.Helper()
		r.call("POST", at+"messages", object{"text": "ask=rm done", "as": "alice"}).want(202)
		e := s.until(session.EventQuestionAsked)
		expect.List(t, "approvers in the event", e.Approvers, "ops/*")
		return e.Turn + "." + e.CallID
	}
	question := ask()
	for token, bodies := range map[string][]object{
		"bot": {{}, {"as": "alice"}, {"as": "carol"}, {"as": "ops"}}, "ops": {{}}, "eye": {{}, {"as": "carol"}},
	} {
		for _, body := range bodies {
			body["question"] = question
			r.as(token).call("POST", at+"approve", body).problem(403, gateway.Forbidden)
		}
	}
	for _, body := range []object{{}, {"as": "alice"}} {
		for _, text := range []string{"/approve", "/approve 1", "/deny always"} {
			body["text"], body["commands"] = text, true
			if got := r.call("POST", at+"messages", body); got.StatusCode != http.StatusForbidden && !strings.Contains(got.text, `"invalid":true`) {
				t.Errorf("%v: %s %s", body, got.Status, got.text)
			}
		}
	}
	turn, _, _ := strings.Cut(question, ".")
	r.as("ops").call("POST", at+"approve", object{"question": turn + ".2", "as": "carol"}).problem(409, gateway.OtherQuestion) // it comes later
	r.as("ops").call("POST", at+"approve", object{"question": question, "as": "carol"}).want(200)
	expect.Equal(t, "decided by", s.until(session.EventQuestionAnswered).By, "ops/carol")
	s.until(session.EventTurnEnded)
	r.as("ops").call("POST", at+"deny", object{"question": ask(), "as": "dave"}).want(200)
	expect.Equal(t, "denied by", s.until(session.EventQuestionAnswered).By, "ops/dave")
	s.until(session.EventTurnEnded)

	// A decision is for a question that is open when its approvers are looked up. One that comes before the
	// question decides nothing, also if the question is asked in the next moment.
	r.as("bot").call("POST", at+"messages", object{"text": "sleep=1h", "as": "alice"}).want(202)
	turn = s.until(session.EventTurnStarted).Turn
	for _, body := range []object{{}, {"as": "alice"}, {"as": "carol"}} {
		body["question"] = turn + ".3"
		r.as("bot").call("POST", at+"approve", body).problem(409, gateway.NoQuestion)
	}
	r.as("bot").call("POST", at+"stop", nil).want(200)
	s.until(session.EventTurnEnded)
}

// askAtDecision is a hook that has the agent ask just before a decision's script reaches Redis.
type askAtDecision struct {
	armed atomic.Bool
	ask   func()
}

func (a *askAtDecision) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *askAtDecision) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *askAtDecision) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && a.armed.CompareAndSwap(true, false) {
			a.ask()
		}
		return next(ctx, cmd)
	}
}

// Nobody gets around the approvers by a decision that passes the check before the question is asked.
func TestDecisionBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	rdb, err := redisconn.Open(acl.As(t, redistest.URL(t), acl.Gateway)) // the worker's client has no hook
	expect.OK(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	hook := &askAtDecision{}
	rdb.AddHook(hook)
	r := rigOn(t, rdb, withTokens(t, `[{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]}]`)).as("bot")
	now := make(chan struct{})
	w, err := worker.New(acl.Client(t, acl.Worker), agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		select {
		case <-now:
		case <-ctx.Done():
			return agent.Result{}, context.Cause(ctx)
		}
		answer, err := turn.Ask(ctx, agent.Question{Name: "rm"})
		return agent.Result{Text: string(answer)}, err
	}), worker.Config{Approvers: []string{"ops/*"}, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	const at = "/v1/sessions/s/"
	s := r.stream("s", "")
	r.call("POST", at+"messages", object{"text": "hello"}).want(202)
	turn := s.until(session.EventTurnStarted).Turn
	hook.ask = func() {
		close(now)
		s.until(session.EventQuestionAsked)
	}
	hook.armed.Store(true)
	r.call("POST", at+"approve", object{"question": turn + ".1"}).problem(409, gateway.OtherQuestion) // it is new
	if hook.armed.CompareAndSwap(true, false) {
		hook.ask()
	}
	r.call("POST", at+"approve", object{"question": turn + ".1"}).problem(403, gateway.Forbidden)
	r.call("POST", at+"stop", nil).want(200)
}

// decider is a token with a user of it.
type decider struct{ token, as string }

func (d decider) name() string { return strings.TrimSuffix(d.token+"/"+d.as, "/") }

// runs is in which runs a turn asks its questions.
type runs string

const (
	oneRun     runs = "all in one run"
	beginAgain runs = "each in runs that begin again"
	goOn       runs = "each in runs that go on"
)

// asks is a turn that asks questions.
type asks struct {
	starter   string   // who sent the message for which the turn began; "": a program that names nobody
	approvers []string // of its questions
	runs      runs     // in which it asks
	anyone    bool     // the gateway lets everybody decide who may send
}

// allows is docs/http.md's rule: who may decide.
func (a asks) allows(d decider) bool {
	may := map[string][]gateway.Permission{"bot": {gateway.Send, gateway.Read}, "boss": {gateway.Control, gateway.Read}, "ops": {gateway.Send}}[d.token]
	switch {
	case may == nil || session.ValidateID(cmp.Or(d.as, "x")) != nil:
		return false
	case len(a.approvers) > 0:
		return slices.ContainsFunc(a.approvers, func(who string) bool {
			return who == "anyone" || who == "sender" && d.name() == a.starter || who == "ops/*" && d.token == "ops" && d.as != ""
		})
	case a.anyone && slices.Contains(may, gateway.Send), slices.Contains(may, gateway.Control) && d.as == "":
		return true
	}
	return d.name() == a.starter
}

// Who may decide follows from who sent the message for which the turn began, from the question and from the token. Who
// steers or waits in line gets no say, nor has anybody with almost the same name, in the first run or a later one.
func TestWhoMayDecide(t *testing.T) {
	expect.NotQuick(t)
	t.Parallel()
	deciders := []decider{
		{"bot", ""}, {"bot", "alice"}, {"bot", "steers"}, {"bot", "waits"}, {"bot", "nobody"}, {"boss", ""}, {"boss", "alice"}, {"boss", "ops"},
		{"ops", ""}, {"ops", "alice"}, {"ops", "carol"}, {"eye", ""}, {"eye", "alice"},
	}
	for _, as := range expect.Near("alice") {
		deciders = append(deciders, decider{"bot", as})
	}
	for i := range 2 * 2 * 4 * 3 {
		a := asks{starter: []string{"bot/alice", ""}[i%2], anyone: i/2%2 == 1, approvers: [][]string{nil, {"sender"}, {"ops/*"}, {"anyone"}}[i/4%4], runs: []runs{oneRun, beginAgain, goOn}[i/16]}
		t.Run(fmt.Sprintf("%+v", a), func(t *testing.T) { t.Parallel(); a.check(t, deciders) })
	}
}

func (a asks) check(t *testing.T, deciders []decider) {
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]},
		{"name": "boss", "sha256": "SUM", "sessions": ["*"], "may": ["control", "read"]},
		{"name": "ops", "sha256": "SUM", "sessions": ["*"], "may": ["send"]},
		{"name": "eye", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`), func(c *gateway.Config) { c.AnyoneDecides = a.anyone }).as("bot")
	var allowed []decider
	for _, d := range deciders {
		if a.allows(d) {
			allowed = append(allowed, d)
		}
	}
	config := worker.Config{Approvers: a.approvers, Logger: slog.New(slog.DiscardHandler)}
	began, first := make(chan struct{}, 1), sync.Once{}
	ask := agent.Question{Name: "rm"}
	if a.runs != oneRun {
		config.ParkAfter = time.Millisecond
	}
	w, err := worker.New(acl.Client(t, acl.Worker), steerable{func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		first.Do(func() {
			began <- struct{}{}
			select {
			case joins := <-turn.Host.Steers:
				joins.Accept()
			case <-ctx.Done():
			}
		})
		for i := range len(allowed) + 1 {
			if a.runs != oneRun {
				ask.Key = fmt.Sprint(i)
			}
			if _, err := turn.Ask(ctx, ask); err != nil {
				return agent.Result{}, err
			}
		}
		return agent.Result{}, nil
	}, a.runs == goOn}, config)
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	const at = "/v1/sessions/s/"
	s := r.stream("s", "")
	if a.starter == "" {
		_, err := turnstile.NewClient(r.redis).Session("s").Send(t.Context(), turnstile.Message{Text: "hello"})
		expect.OK(t, err)
	} else {
		r.call("POST", at+"messages", object{"text": "hello", "as": "alice"}).want(202)
	}
	expect.Received(t, "the turn", began)
	r.call("POST", at+"messages", object{"text": "hi", "as": "steers", "mode": "steer"}).want(202)
	r.call("POST", at+"messages", object{"text": "hi", "as": "waits", "mode": "queue"}).want(202)
	decide := func(e event, d decider) answer {
		body := object{"question": e.Turn + "." + e.CallID}
		if d.as != "" {
			body["as"] = d.as
		}
		return r.as(d.token).call("POST", at+"approve", body)
	}
	open := func(number int) (e event) {
		for e = s.until(session.EventQuestionAsked); e.CallID != fmt.Sprint(number); e = s.until(session.EventQuestionAsked) {
		}
		if a.runs != oneRun {
			for s.until(session.EventTurnRequeued).Turn != e.Turn {
			}
		}
		return e
	}
	for i := range len(allowed) + 1 {
		e := open(i + 1)
		for _, d := range deciders {
			if !a.allows(d) {
				if got := decide(e, d).StatusCode; got != http.StatusForbidden && got != http.StatusBadRequest {
					t.Errorf("question %d, %+v: status %d", i+1, d, got)
				}
			}
		}
		if i < len(allowed) {
			decide(e, allowed[i]).want(200)
		}
	}
	_, err = turnstile.NewClient(r.redis).Session("s").Stop(t.Context())
	expect.OK(t, err)
}

// steerable is an agent whose turns messages may join.
type steerable struct {
	agent.Func
	continues bool
}

func (s steerable) Traits() agent.Traits {
	return agent.Traits{Steerable: true, Continues: s.continues}
}

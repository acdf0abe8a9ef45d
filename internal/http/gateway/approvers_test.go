package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
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

// Who steers a message into a turn that asks gets no say in it, neither by the approver "sender" nor by the
// gateway's own rule.
func TestASteerIsNoApproval(t *testing.T) {
	t.Parallel()
	for _, approvers := range [][]string{{session.ApproveSender}, nil} {
		r := newRig(t, withTokens(t, `[{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]}]`)).as("bot")
		w, err := worker.New(acl.Client(t, acl.Worker), echo.New(), worker.Config{Approvers: approvers, Logger: slog.New(slog.DiscardHandler)})
		expect.OK(t, err)
		expect.OK(t, w.Start(context.Background()))
		key := "s" + strings.Join(approvers, "")
		at := "/v1/sessions/" + key + "/"
		s := r.stream(key, "")
		r.call("POST", at+"messages", object{"text": "ask=rm done", "as": "alice"}).want(202)
		e := s.until(session.EventQuestionAsked)
		question := e.Turn + "." + e.CallID
		r.call("POST", at+"messages", object{"text": "hi", "as": "mallory", "mode": "steer"}).want(202)
		r.call("POST", at+"approve", object{"question": question, "as": "mallory"}).problem(403, gateway.Forbidden)
		r.call("POST", at+"approve", object{"question": question, "as": "alice"}).want(200)
		s.until(session.EventTurnEnded)
		expect.OK(t, w.Stop(t.Context()))
	}
}

// A question of a worker of the version before has no senders: those of the running turn's messages decide,
// as they did then.
func TestAQuestionOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]}]`)).as("bot")
	const at = "/v1/sessions/s/"
	r.call("POST", at+"messages", object{"text": "hello", "as": "alice"}).want(202)
	claims, err := actors.NewWorker(t, r.redis, "before").Claim(t.Context(), []string{"s"})
	expect.OK(t, err)
	expect.OK(t, claims[0].Promote(t.Context()))
	number, err := claims[0].Ask(t.Context(), session.Question{Name: "rm"})
	expect.OK(t, err)
	question := fmt.Sprint(claims[0].Turn().ID, ".", number)
	r.call("POST", at+"approve", object{"question": question, "as": "bob"}).problem(403, gateway.Forbidden)
	r.call("POST", at+"approve", object{"question": question, "as": "alice"}).want(200)
}

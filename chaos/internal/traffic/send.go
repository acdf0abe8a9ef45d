package traffic

import (
	"turnstile/test/harvest"

	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	"turnstile/chaos/internal/agents"
	"turnstile/chaos/internal/world"
	"turnstile/pkg/session"
	"turnstile/test/history"
)

// The entrances.
const (
	viaClient  = "client"
	viaHTTP    = "http"
	viaAsynq   = "asynq"
	viaEnqueue = "enqueue"
	viaOpenAI  = "openai" // the Responses API
	viaChat    = "chat"   // Chat Completions
)

// message is a message that is to be sent.
type message struct {
	session, id string
	via         string
	mode        session.Mode
	plan        agents.Plan
	delay       time.Duration
	route       string
	again       bool // it is sent again after it was accepted
	other       bool // another message is sent with its ID
	wait        int  // which exit waits for its outcome
}

// context is the context of a message with a route. It names the session, and the receiver compares them.
func (m message) context() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"session":%q}`, m.session))
}

// told is the response to a sender.
type told struct {
	status, reason string
}

// run sends a message and waits for its outcome.
func (t *Traffic) run(m message) {
	if t.send(m) && m.via != viaOpenAI && m.via != viaChat {
		t.await(m)
	}
}

// send sends a message until it has a response, with the same ID each time. It reports whether the
// message was accepted.
func (t *Traffic) send(m message) bool {
	t.sent.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	got := told{status: history.Unknown}
	for try := 0; got.status == history.Unknown && ctx.Err() == nil; try++ {
		got = t.attempt(ctx, m, m.plan.Text(), try)
		if got.status == history.Unknown {
			pause(ctx, 200*time.Millisecond)
		}
	}
	if got.status != history.Accepted {
		return false
	}
	t.accepted.Add(1)
	if history.KindOf(m.session) == history.Operators {
		t.mu.Lock()
		t.open[m.session] = append(t.open[m.session], m.id)
		t.mu.Unlock()
	}
	if m.again {
		t.attempt(ctx, m, m.plan.Text(), 1)
	}
	if m.other {
		t.attempt(ctx, m, m.plan.Text()+" but another text", 0)
	}
	return true
}

// attempt sends a message once, and records before and after.
func (t *Traffic) attempt(ctx context.Context, m message, text string, try int) told {
	before := history.Record{
		Kind: history.Send, Session: m.session, ID: m.id, Via: m.via, Mode: string(m.mode), Plan: m.plan.End,
		Work: int64(m.plan.Work), Delay: int64(m.delay), Route: m.route, Attempt: try, At: time.Now().UnixNano(),
	}
	if text != m.plan.Text() {
		before.Name = "other" // another message with this ID
	}
	t.log.Add(before)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var got told
	var err error
	switch m.via {
	case viaClient:
		got, err = t.byClient(ctx, m, text, try)
	case viaHTTP:
		got, err = t.byHTTP(ctx, m, text, try)
	case viaAsynq:
		got, err = t.byAsynq(ctx, m, text)
	case viaEnqueue:
		got, err = t.byEnqueue(ctx, m, text)
	case viaOpenAI:
		cancel() // a response lasts as long as its turn
		got, err = t.byOpenAI(m, text, try)
	case viaChat:
		cancel()
		got, err = t.byChat(m, text, try)
	}
	after := before
	after.Kind, after.At, after.Since, after.Status, after.Reason = history.Told, 0, before.At, got.status, got.reason
	if err != nil {
		after.Error = err.Error()
	}
	t.log.Add(after)
	return got
}

func (t *Traffic) byClient(ctx context.Context, m message, text string, try int) (told, error) {
	message := turnstile.Message{ID: m.id, Text: text, Mode: m.mode, Delay: m.delay}
	if m.route != "" {
		message.ReplyTo, message.ReplyContext = m.route, m.context()
	}
	r, err := t.client.Session(m.session).Send(ctx, message)
	switch {
	case errors.Is(err, session.ErrConflict):
		return told{status: history.Conflict}, nil
	case errors.Is(err, session.ErrRefused):
		return told{status: history.Refused, reason: err.Error()}, nil
	case try == 0 && errors.Is(err, session.ErrUnchanged) && m.id[len(m.id)-1]%2 == 0:
		return told{status: history.Refused, reason: "unchanged"}, err // its sender gives up
	case err != nil:
		return told{status: history.Unknown}, err
	}
	return told{status: history.Accepted, reason: string(r.State)}, nil
}

func (t *Traffic) byHTTP(ctx context.Context, m message, text string, try int) (told, error) {
	body := map[string]any{"text": text, "mode": m.mode}
	if m.delay > 0 {
		body["delay"] = m.delay.String()
	}
	if m.route != "" {
		body["reply_to"], body["context"] = m.route, m.context()
	}
	data, err := json.Marshal(body)
	if err != nil {
		return told{status: history.Unknown}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.gateway(len(m.id)+try)+"/v1/sessions/"+m.session+"/messages", bytes.NewReader(data))
	if err != nil {
		return told{status: history.Unknown}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", m.id)
	code, response, err := t.do(req)
	var problem struct {
		Code   string
		Status any // a text of a receipt, a number of a problem
	}
	if err == nil {
		err = json.Unmarshal(response, &problem)
	}
	if err != nil {
		return told{status: history.Unknown}, err
	}
	switch {
	case code == http.StatusOK || code == http.StatusAccepted:
		return told{status: history.Accepted, reason: fmt.Sprint(problem.Status)}, nil
	case problem.Code == "idempotency_conflict":
		return told{status: history.Conflict}, nil
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && problem.Code != "rate_limited":
		return told{status: history.Refused, reason: problem.Code}, nil
	}
	return told{status: history.Unknown, reason: problem.Code}, nil
}

// gateway is the URL of one of the gateways: with another n, perhaps another one.
func (t *Traffic) gateway(n int) string { return t.world.Gateways[n%len(t.world.Gateways)].URL() }

func (t *Traffic) do(req *http.Request) (code int, body []byte, err error) {
	res, err := t.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	return res.StatusCode, b.Bytes(), err
}

func (t *Traffic) byAsynq(ctx context.Context, m message, text string) (told, error) {
	payload, err := json.Marshal(map[string]any{"v": 1, "text": text})
	if err != nil {
		return told{status: history.Unknown}, err
	}
	opts := []asynq.Option{asynq.TaskID(harvest.TaskID(m.session, m.id)), asynq.Queue("session:" + m.session), asynq.MaxRetry(2)}
	if m.delay > 0 {
		opts = append(opts, asynq.ProcessIn(m.delay))
	}
	_, err = t.plain.EnqueueContext(ctx, asynq.NewTask("turnstile:message", payload), opts...)
	switch {
	case err == nil:
		return told{status: history.Accepted}, nil
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return told{status: history.Accepted, reason: "duplicate"}, nil
	}
	return told{status: history.Unknown}, err
}

func (t *Traffic) byEnqueue(ctx context.Context, m message, text string) (told, error) {
	args := []string{"--redis", t.world.RedisURL(world.Sender), "-s", m.session, "--id", m.id, "--json"}
	if m.mode != "" {
		args = append(args, "--mode", string(m.mode))
	}
	if m.delay > 0 {
		args = append(args, "--in", m.delay.String())
	}
	if m.route != "" {
		args = append(args, "--reply-to", m.route, "--context", string(m.context()))
	}
	cmd := exec.CommandContext(ctx, t.world.Programs.Enqueue, append(args, text)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	var failed *exec.ExitError
	switch {
	case err == nil:
		var r struct{ Status string }
		err = json.Unmarshal(out, &r)
		return told{status: history.Accepted, reason: r.Status}, err
	case errors.As(err, &failed) && failed.ExitCode() == 3:
		var r struct{ Reason string }
		_ = json.Unmarshal(out, &r)
		if r.Reason == "conflict" {
			return told{status: history.Conflict}, nil
		}
		return told{status: history.Refused, reason: r.Reason}, nil
	case errors.As(err, &failed):
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return told{status: history.Unknown}, err
}

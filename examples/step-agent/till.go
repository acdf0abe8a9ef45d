package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// till charges a card with the price in the message, and sends a receipt.
type till struct {
	payments string // the URL of the payment service
}

// Run is all of the interface agent.Agent. After a worker's death the next one calls it again for the same
// messages. What a step has done is not done again then.
func (t till) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	var replies []string
	for _, m := range turn.Messages { // more than one if the worker collects
		reply, err := t.sell(ctx, turn, m)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return agent.Result{}, err
		}
		replies = append(replies, reply)
	}
	return agent.Result{Text: strings.Join(replies, "\n")}, nil
}

func (t till) sell(ctx context.Context, turn *agent.Turn, m session.Message) (reply string, err error) {
	cents, ok := cents(m.Text)
	if !ok {
		return "Say a price in cents, such as 1250.", nil
	}
	price, err := json.Marshal(map[string]int{"cents": cents})
	if err != nil {
		return "", err
	}
	var ids []string
	for _, name := range []string{"charge", "receipt"} {
		// RunAgain, because the service knows idempotency keys. Without it a step that nobody knows the end of
		// fails with agent.ErrStepUnknown.
		step := agent.StepSpec{Key: name + ":" + m.ID, Name: name, Input: price, RunAgain: true}
		id, err := agent.Step(ctx, turn, step, func(ctx context.Context, key string) (string, error) {
			return t.post(ctx, "/"+name+"s", key, price)
		})
		if err != nil {
			return "", err
		}
		ids = append(ids, id)
	}
	return fmt.Sprintf("Charged %d cents: %s.", cents, strings.Join(ids, ", ")), nil
}

func cents(text string) (n int, ok bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil
}

// post makes one request to the payment service. An error that is not retryable ends the step for good.
func (t till) post(ctx context.Context, path, key string, body []byte) (id string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.payments+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", agent.Retryable(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s: %s", path, response.Status)
		if response.StatusCode >= http.StatusInternalServerError {
			err = agent.Retryable(err)
		}
		return "", err
	}
	var done struct{ ID string }
	if err := json.NewDecoder(response.Body).Decode(&done); err != nil {
		return "", agent.Retryable(err)
	}
	return done.ID, nil
}

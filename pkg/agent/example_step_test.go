package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"turnstile/pkg/agent"
)

// charging charges a card, and must not do it twice.
func charging(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	step := agent.StepSpec{Key: "charge:42", Name: "charge", Input: json.RawMessage(`{"cents":1250}`), RunAgain: true}
	id, err := agent.Step(ctx, turn, step, func(_ context.Context, idempotencyKey string) (string, error) {
		fmt.Println("the payment service is called with", idempotencyKey)
		return "ch_1", nil
	})
	return agent.Result{Text: "charged: " + id}, err
}

// A worker keeps a turn's steps when it dies. In a test two functions replace it.
func ExampleStep() {
	journal := map[string]agent.StepRecord{}
	host := agent.Host{
		StartStep: func(_ context.Context, s agent.StepSpec) (agent.StepRecord, error) {
			if record, ended := journal[s.Key]; ended {
				return record, nil
			}
			return agent.StepRecord{Key: s.Key, State: agent.StepNew, IdempotencyKey: "5d41402abc4b"}, nil
		},
		EndStep: func(_ context.Context, s agent.StepSpec, e agent.StepEnd) error {
			journal[s.Key] = agent.StepRecord{Key: s.Key, State: agent.StepDone, Output: e.Output, Error: e.Error}
			return nil
		},
	}
	for _, run := range []string{"t1", "t2"} {
		result, err := charging(context.Background(), &agent.Turn{ID: run, Host: host})
		fmt.Println(result.Text, err)
	}
	// Output:
	// the payment service is called with 5d41402abc4b
	// charged: ch_1 <nil>
	// charged: ch_1 <nil>
}

// An adapter reports the steps of a program, and does one only if it is new.
func ExampleTurn_StartStep() {
	ctx, turn := context.Background(), &agent.Turn{ID: "t1", Host: agent.Host{Emit: func(e agent.Event) { fmt.Println(e.Type, e.CallID) }}}
	step := agent.StepSpec{Key: "mail:7", Name: "mail", CallID: "call_1"}
	record, err := turn.StartStep(ctx, step)
	fmt.Println(record.State, record.IdempotencyKey, err)
	// Output:
	// tool_start call_1
	// new t1/mail:7 <nil>
}

// A step that failed, and may run again in the turn's next run.
func ExampleTurn_EndStep() {
	ctx, turn := context.Background(), &agent.Turn{Host: agent.Host{
		EndStep: func(_ context.Context, s agent.StepSpec, e agent.StepEnd) error {
			fmt.Println(s.Key, e.Error, e.Again)
			return nil
		},
	}}
	step := agent.StepSpec{Key: "mail:7"}
	if _, err := turn.StartStep(ctx, step); err != nil {
		fmt.Println(err)
	}
	failed := errors.New("the mail server is busy")
	fmt.Println(turn.EndStep(ctx, step, agent.StepEnd{Error: failed.Error(), Again: true}))
	// Output:
	// mail:7 the mail server is busy true
	// <nil>
}

// Without a name and a call ID the key stands for them.
func ExampleStepSpec_Started() {
	e := agent.StepSpec{Key: "mail:7", Input: json.RawMessage(`"ann"`)}.Started()
	fmt.Println(e.Type, e.Name, e.CallID, string(e.Input))
	// Output: tool_start mail:7 mail:7 "ann"
}

func ExampleStepSpec_Ended() {
	e := agent.StepSpec{Key: "mail:7", CallID: "call_1"}.Ended(agent.StepEnd{Output: json.RawMessage(`"sent"`)})
	fmt.Println(e.Type, e.CallID, string(e.Output))
	// Output: tool_end call_1 "sent"
}

package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// stepsHost is a worker's part of steps. The states of keys are those of an earlier run.
type stepsHost struct {
	mu    sync.Mutex
	was   map[string]agent.StepRecord
	calls []string
	ends  map[string]agent.StepEnd
	full  error // of an end
}

func (h *stepsHost) start(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
	h.mu.Lock()
	h.calls = append(h.calls, s.Key)
	record, known := h.was[s.Key]
	h.mu.Unlock()
	switch {
	case s.Key == "refused":
		return record, fmt.Errorf("%w: twice", agent.ErrStep)
	case !known:
		record = agent.StepRecord{State: agent.StepNew}
	}
	record.Key, record.IdempotencyKey = s.Key, "id-"+s.Key
	return record, s.Permit(ctx)
}

func (h *stepsHost) end(_ context.Context, s agent.StepSpec, e agent.StepEnd) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends == nil {
		h.ends = map[string]agent.StepEnd{}
	}
	h.ends[s.Key] = e
	return h.full
}

func (h *stepsHost) turn(t *testing.T) *agent.Turn {
	t.Helper()
	in := turn(t, "hi")
	in.Host.StartStep, in.Host.EndStep = h.start, h.end
	return in
}

// stepping is an agent that writes each line and reads the response. Its error ends with all of them.
func stepping(t *testing.T, lines ...string) *Agent {
	t.Helper()
	return newAgent(t, Config{Format: JSONL, Command: append([]string{"sh", "-c",
		`read turn; for line; do printf '%s\n' "$line"; read answer; all="$all$answer"; done; echo "$all" >&2; exit 3`, "sh"}, lines...)})
}

// A command learns what is known of its steps, and that their ends are stored.
func TestSteps(t *testing.T) {
	t.Parallel()
	host := &stepsHost{was: map[string]agent.StepRecord{
		"well":    {State: agent.StepDone, Output: json.RawMessage(`{"id":7}`), Turn: "t0"},
		"badly":   {State: agent.StepDone, Error: "declined"},
		"unknown": {State: agent.StepUnknown},
	}}
	_, err := runText(t.Context(), stepping(t,
		`{"type":"tool_start","key":"new"}`, `{"type":"tool_end","key":"new","output":{"id":8}}`,
		`{"type":"tool_start","key":"well"}`, `{"type":"tool_start","key":"badly"}`,
		`{"type":"tool_start","key":"unknown"}`, `{"type":"tool_end","key":"unknown","error":"who knows"}`,
		`{"type":"tool_start","key":"refused"}`,
		`{"type":"tool_start","key":"flaky"}`, `{"type":"tool_end","key":"flaky","error":"busy","again":true}`,
		`{"type":"tool_start","key":"mute"}`, `{"type":"tool_end","key":"mute"}`,
	), host.turn(t))
	want := `exit status 3: {"type":"step","key":"new","state":"new","idempotency_key":"id-new"}{"type":"stored","key":"new"}` +
		`{"type":"step","key":"well","state":"done","output":{"id":7},"turn":"t0","idempotency_key":"id-well"}` +
		`{"type":"step","key":"badly","state":"done","error":"declined","idempotency_key":"id-badly"}` +
		`{"type":"step","key":"unknown","state":"unknown","idempotency_key":"id-unknown"}{"type":"stored","key":"unknown"}` +
		`{"type":"step","key":"refused","state":"refused","error":"wrong use of a step: twice"}` +
		`{"type":"step","key":"flaky","state":"new","idempotency_key":"id-flaky"}{"type":"stored","key":"flaky"}` +
		`{"type":"step","key":"mute","state":"new","idempotency_key":"id-mute"}{"type":"stored","key":"mute"}`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if ends := (map[string]agent.StepEnd{
		"new": {Output: json.RawMessage(`{"id":8}`)}, "unknown": {Error: "who knows"}, "flaky": {Error: "busy", Again: true}, "mute": {Output: json.RawMessage("null")},
	}); !reflect.DeepEqual(host.ends, ends) {
		t.Errorf("ends %+v\nwant %+v", host.ends, ends)
	}
}

// The whole line reaches the worker.
func TestStepSpec(t *testing.T) {
	t.Parallel()
	in := turn(t, "hi")
	var got agent.StepSpec
	in.Host.StartStep = func(_ context.Context, s agent.StepSpec) (agent.StepRecord, error) {
		got = s
		return agent.StepRecord{}, nil
	}
	a := newAgent(t, Config{Format: JSONL, Command: printing(
		`{"type":"tool_start","key":"k","name":"n","call_id":"c","input":{"a": 1},"safe":true,"run_again":true,"hidden":true}` + "\n" + `{"type":"result"}` + "\n")})
	if _, err := a.Run(t.Context(), in); err != nil {
		t.Error(err)
	}
	got.Permit = nil
	if want := (agent.StepSpec{Key: "k", Name: "n", CallID: "c", Input: json.RawMessage(`{"a": 1}`), Safe: true, RunAgain: true, Hidden: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// Without a worker a step has the events of a tool, unless it is hidden.
func TestStepsWithoutAHost(t *testing.T) {
	t.Parallel()
	tn := turn(t, "hi")
	var got []agent.Event
	_, err := stepping(t,
		`{"type":"tool_start","key":"a","name":"charge","call_id":"1","input":5}`, `{"type":"tool_end","key":"a","output":6}`,
		`{"type":"tool_start","key":"b","hidden":true}`, `{"type":"tool_end","key":"b"}`,
	).Run(t.Context(), emitting(tn, func(e agent.Event) { got = append(got, e) }))
	if err == nil || !strings.Contains(err.Error(), `"state":"new","idempotency_key":"`+tn.ID+`/a"}{"type":"stored","key":"a"}`) {
		t.Error(err)
	}
	if want := []agent.Event{
		{Type: session.EventToolStart, Name: "charge", CallID: "1", Input: json.RawMessage("5")}, {Type: session.EventToolEnd, CallID: "1", Output: json.RawMessage("6")},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// Steps begin in the order of their lines, and are stored at once.
func TestParallelSteps(t *testing.T) {
	t.Parallel()
	const n = 20
	host := &stepsHost{}
	in := host.turn(t)
	var all sync.WaitGroup
	all.Add(n)
	in.Host.StartStep = func(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
		record, err := host.start(ctx, s)
		all.Done()
		all.Wait() // each store ends with the last
		return record, err
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint("k", i))
	}
	a := newAgent(t, Config{Format: JSONL, Command: append([]string{"sh", "-c",
		`read turn; for k; do echo '{"type":"tool_start","key":"'$k'"}'; done; for k; do read answer; echo '{"type":"tool_end","key":"'$k'"}'; done
		for k; do read answer; done; echo '{"type":"result","text":"done"}'`, "sh"}, want...)})
	if result, err := a.Run(t.Context(), in); err != nil || result.Text != "done" || len(host.ends) != n || !slices.Equal(host.calls, want) {
		t.Errorf("%+v, %v: started %q, ended %+v", result, err, host.calls, host.ends)
	}
}

func TestBadSteps(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		`{"type":"tool_end","key":"new"}`: `line 1 of the command's output: a tool_end with the key "new": no such step runs`,
		`{"type":"tool_start","key":"new"}` + "\n" + `{"type":"tool_end","key":"new"}` + "\n" + `{"type":"tool_end","key":"new"}`: `line 3 of the command's output: a tool_end with the key "new": no such step runs`,
		`{"type":"tool_start","key":"done"}` + "\n" + `{"type":"tool_end","key":"done"}`:                                          `line 2 of the command's output: a tool_end with the key "done": no such step runs`,
		`{"type":"tool_start","key":"refused"}` + "\n" + `{"type":"tool_end","key":"refused"}`:                                    `line 2 of the command's output: a tool_end with the key "refused": no such step runs`,
		`{"type":"tool_end","key":"new","output":1,"again":true}`:                                                                 `line 1 of the command's output: a tool_end with again needs an error`,
		`{"type":"tool_end","key":"new","output":1,"error":"x"}`:                                                                  `line 1 of the command's output: a tool_end has an output or an error, not both`,
		`{"type":"tool_start","key":5}`:                                                                                           `line 1 of the command's output: it is not a JSON object with an event`,
	} {
		host := &stepsHost{was: map[string]agent.StepRecord{"done": {State: agent.StepDone}}}
		_, err := newAgent(t, Config{Format: JSONL, Command: printing(lines + "\n"), Grace: -1}).Run(t.Context(), host.turn(t))
		if err == nil || !strings.HasPrefix(err.Error(), want) || errors.Is(err, agent.ErrRetryable) {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
}

// A step that has not ended does not block the turn's end, nor an interrupt.
func TestOpenSteps(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`read turn; echo '{"type":"tool_start","key":"a"}'; echo '{"type":"result","text":"done"}'`: "done",
		`read turn; echo '{"type":"tool_start","key":"a"}'; read answer`:                            "interrupted",
	} {
		begun, cancelled := make(chan struct{}), errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		in := turn(t, "hi")
		in.Host.StartStep = func(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
			_ = s.Permit(ctx)
			close(begun)
			<-ctx.Done()
			return agent.StepRecord{}, context.Cause(ctx)
		}
		if want == "interrupted" {
			go func() {
				<-begun
				cancel(cancelled)
			}()
		}
		result, err := newAgent(t, Config{Command: shell(script), Format: JSONL, Grace: -1}).Run(ctx, in)
		if result.Text != "done" && !errors.Is(err, cancelled) || (want == "done") != (err == nil) {
			t.Errorf("%s: %+v, %v", script, result, err)
		}
		cancel(nil)
	}
}

// What an interrupted command says of a step is stored if it is a result. An error may come from the
// interruption.
func TestInterruptedSteps(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]int{`"output":1`: 1, `"error":"interrupted"`: 0} {
		host := &stepsHost{}
		in := host.turn(t)
		ctx, cancel := context.WithCancel(t.Context())
		a := newAgent(t, Config{Format: JSONL, Command: shell(
			`trap 'printf "%s\n" "{\"type\":\"tool_end\",\"key\":\"a\",$0}"; exit' INT; read turn; echo '{"type":"tool_start","key":"a"}'; read answer; echo '{"type":"text","text":"x"}'; while :; do read more; done`)})
		a.config.Command = append(a.config.Command, end)
		if _, err := a.Run(ctx, emitting(in, func(agent.Event) { cancel() })); !errors.Is(err, context.Canceled) || len(host.ends) != want {
			t.Errorf("%s: %v, ends %+v", end, err, host.ends)
		}
	}
}

// A command learns that an end was not stored.
func TestUnstoredStep(t *testing.T) {
	t.Parallel()
	host := &stepsHost{full: agent.ErrJournalFull}
	_, err := runText(t.Context(), stepping(t, `{"type":"tool_start","key":"a"}`, `{"type":"tool_end","key":"a"}`), host.turn(t))
	if err == nil || !strings.HasSuffix(err.Error(), `{"type":"stored","key":"a","error":"the turn's journal is full"}`) {
		t.Error(err)
	}
}

// A command that begins steps without end cannot fill its worker with them.
func TestEndlessSteps(t *testing.T) {
	t.Parallel()
	in := turn(t, "hi")
	in.Host.StartStep = func(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
		_ = s.Permit(ctx)
		<-ctx.Done()
		return agent.StepRecord{}, context.Cause(ctx)
	}
	_, err := runText(t.Context(), newAgent(t, Config{Command: shell(`exec yes '{"type":"tool_start","key":"a"}'`), Format: JSONL, Grace: -1}), in)
	if want := "line 1001 of the command's output: more than 1000 lines about steps have no response yet: read stdin"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

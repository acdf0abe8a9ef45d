package examples

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// payment is a line of examples/payments.
var payment = regexp.MustCompile(`/(\w+) "(\w+)": number (\d+), again (\w+)\n`)

// A card is charged once, although each worker that runs the turn is killed: the first in the middle of the
// charge, the second in the middle of the receipt. Then the charge is not even requested again.
func TestStepAgents(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, []string) *program.Process{
		"go": func(t *testing.T, settings []string) *program.Process {
			t.Helper()
			return program.Start(t, program.Command(t, program.Build(t, "turnstile/examples/step-agent"), settings))
		},
		"python": func(t *testing.T, settings []string) *program.Process {
			t.Helper()
			needPython(t)
			return program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), append(settings,
				"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", "TURNSTILE_AGENT_ENV=PAYMENTS_URL", "TURNSTILE_HTTP_ADDR=",
				"TURNSTILE_AGENT_COMMAND=python3 "+example(t, "step-agent-python", "agent.py"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killStepAgent(t, start)
		})
	}
}

func killStepAgent(t *testing.T, start func(*testing.T, []string) *program.Process) {
	t.Helper()
	payments := program.Start(t, program.Command(t, program.Build(t, "turnstile/examples/payments"), nil, "-addr", "127.0.0.1:0", "-delay", "1h"))
	var url string
	payments.Output.Until(t, "the service's URL", func(text string) bool {
		line, complete := strings.CutSuffix(text, "\n")
		url = strings.TrimPrefix(line, "listening on ")
		return complete
	})
	settings := []string{
		"REDIS_URL=" + redistest.URL(t), "PAYMENTS_URL=" + url, "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(),
	}
	chat := actors.NewClient(redistest.New(t)).Session(regexp.MustCompile(`\W+`).ReplaceAllString(t.Name(), "-"))
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()

	worker := start(t, settings)
	sent, err := chat.Send(ctx, turnstile.Message{Text: "1250"})
	expect.OK(t, err)
	for _, held := range []string{`/charges "`, `/receipts "`} {
		payments.Output.Await(t, held)
		worker.Kill()
		worker = start(t, settings)
	}
	end, err := chat.Wait(ctx, sent.ID)
	expect.OK(t, err)
	expect.Equal(t, "status", end.Status, session.StatusDone)
	expect.Equal(t, "reply", end.Reply, "Charged 1250 cents: charges-1, receipts-2.")

	requests := payment.FindAllStringSubmatch(payments.Output.String(), -1)
	if len(requests) != 4 {
		t.Fatalf("requests %q", requests)
	}
	charge, receipt := requests[0][2], requests[2][2]
	for i, want := range [][]string{{"charges", charge, "1", "false"}, {"charges", charge, "1", "true"}, {"receipts", receipt, "2", "false"}, {"receipts", receipt, "2", "true"}} {
		expect.List(t, "request", requests[i][1:], want...)
	}
	if charge == receipt {
		t.Errorf("the steps share the key %s", charge)
	}

	entries, err := actors.Transcript(ctx, chat, end.TranscriptID)
	expect.OK(t, err)
	var uses []string
	for _, e := range entries {
		if e.Tool != nil {
			uses = append(uses, e.Tool.Name+" "+string(e.Tool.Output))
		}
	}
	expect.List(t, "uses of tools", uses, `charge "charges-1"`, `receipt "receipts-2"`)
}

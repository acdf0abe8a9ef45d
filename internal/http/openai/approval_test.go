package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// asks is an agent that asks two questions about tools, and says what was decided.
func asks() agent.Agent {
	return agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		text := ""
		for i, q := range []agent.Question{{Key: "a", Name: "pay", Text: "a tool that pays", Input: json.RawMessage(`{"eur": 12}`)}, {Key: "b", Name: "tip", Text: "1 EUR"}} {
			d, err := turn.Ask(ctx, q)
			if err != nil {
				return agent.Result{}, err
			}
			text += fmt.Sprint(i+1, " ", d, ". ")
		}
		return agent.Result{Text: text}, nil
	})
}

// approving are the parameters of a request with a decision.
func approving(response, approval string, approve bool) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: "echo", Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMcpApprovalResponse(approval, approve),
	}}}
	if response != "" {
		p.PreviousResponseID = sdk.String(response)
	}
	return p
}

// questionOf waits until a response has an open question other than the last one.
func (r *rig) questionOf(client sdk.Client, response, last string) (q responses.ResponseOutputItemUnion) {
	r.Helper()
	expect.Soon(r, "the question", func() bool {
		got, err := client.Responses.Get(r.Context(), response, responses.ResponseGetParams{})
		expect.OK(r, err)
		if got.Status != "in_progress" && got.Status != "queued" {
			r.Fatal(got.RawJSON())
		}
		if len(got.Output) == 0 || got.Output[0].ID == last {
			return false
		}
		expect.Equal(r, "items", len(got.Output), 1)
		q = got.Output[0]
		return true
	})
	return q
}

// An open question is an item of its response, with the same ID in a stream, read again, and while the turn is parked and
// runs again. The decision is a request; its response is the turn's, to its end, without decided questions.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, parks := range []bool{true, false} {
		t.Run(fmt.Sprint("parks ", parks), func(t *testing.T) {
			t.Parallel()
			var r *rig
			if parks {
				r = parking(t, asks())
			} else {
				r = newRig(t)
				r.workerOf(asks())
			}
			client := r.at(r.url, option.WithMaxRetries(0))
			id, _ := background(t, client, "s", "go")
			first := r.questionOf(client, id, "")
			expect.Equal(t, "item", strings.Replace(first.RawJSON(), first.ID, "ID", 1), `{"id":"ID","type":"mcp_approval_request","server_label":"agent","name":"pay","arguments":"{\"eur\":12}","text":"a tool that pays"}`)
			p := approving(id, first.ID, true)
			p.Background = sdk.Bool(true)
			got, err := client.Responses.New(t.Context(), p)
			expect.OK(t, err)
			expect.Equal(t, "response", got.ID+" "+string(got.Status), id+" in_progress")
			second := r.questionOf(client, id, first.ID)
			expect.Equal(t, "question", second.Name+" "+second.Arguments.OfString, `tip {"text":"1 EUR"}`)
			open := client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{})
			for open.Next() && open.Current().Item.ID != second.ID {
			}
			expect.Equal(t, "the open question in a stream", open.Current().Type, "response.output_item.added")
			expect.OK(t, open.Close())
			all, text := streamed(t, client.Responses.NewStreaming(t.Context(), approving("", second.ID, false)))
			expect.Equal(t, "text", text, "1 allow. 2 deny. ")
			var items []string
			for i, e := range all {
				if e.Type == "response.output_item.added" && e.Item.Type == "mcp_approval_request" {
					items = append(items, fmt.Sprint(e.OutputIndex, " ", e.Item.ID))
					expect.Equal(t, "what comes next", all[i+1].Type+" "+all[i+1].Item.ID, "response.output_item.done "+e.Item.ID)
				}
			}
			expect.List(t, "questions in a stream", items, "0 "+first.ID, "1 "+second.ID)
			end := all[len(all)-1]
			expect.Equal(t, "end", end.Type+" "+end.Response.ID+" "+end.Response.OutputText(), "response.completed "+id+" 1 allow. 2 deny. ")
			// A decision counts once. Its request may be repeated, as SDKs do.
			for _, q := range []string{first.ID, second.ID} {
				_, err = client.Responses.New(t.Context(), approving(id, q, true))
				r.refused(err, 400, "no_question", "The turn that asked it has ended.")
			}
			_, err = client.Responses.New(t.Context(), approving(id, second.ID, true), retry)
			r.refused(err, 400, "no_question", "")
			got, err = client.Responses.New(t.Context(), approving(id, second.ID, false), option.WithHeader("X-Stainless-Retry-Count", "2"))
			expect.OK(t, err)
			expect.Equal(t, "the same request", got.ID+" "+got.OutputText(), id+" 1 allow. 2 deny. ")
		})
	}
}

// A stream has the question while it is open, and goes on whoever decides it. A request without a stream waits, as before.
func TestApprovalInAnOpenStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workerOf(actors.Pays())
	s := r.sdk.Responses.NewStreaming(t.Context(), say("s", "go"))
	id := ""
	for s.Next() && s.Current().Type != "response.output_item.done" {
		if e := s.Current(); e.Type == "response.created" {
			id = e.Response.ID
		}
	}
	got, err := r.sdk.Responses.New(t.Context(), approving(id, s.Current().Item.ID, true))
	expect.OK(t, err)
	expect.Equal(t, "the decision's response", got.OutputText(), "It is paid.")
	for s.Next() {
	}
	expect.OK(t, s.Err())
	expect.Equal(t, "the stream's end", s.Current().Type+" "+s.Current().Response.OutputText(), "response.completed It is paid.")
	if strings.Contains(s.Current().RawJSON(), "mcp_approval_request") {
		t.Errorf("a decided question is in %s", s.Current().RawJSON())
	}
}

func TestApprovalsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := parking(t, agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		if _, err := turn.Ask(ctx, agent.Question{Key: "a", Name: "pay"}); err != nil {
			return agent.Result{}, err
		}
		value, err := turn.Wait(ctx, agent.Wait{Key: "paid"})
		return agent.Result{Text: string(value)}, err
	}))
	id, _ := background(t, r.sdk, "s", "go")
	other, _ := background(t, r.sdk, "other", "go")
	q := r.questionOf(r.sdk, id, "")
	foreign := r.questionOf(r.sdk, other, "")
	body := func(input, more string) string { return `{"input":` + input + more + `}` }
	response := func(id, approve string) string {
		return fmt.Sprintf(`{"type":"mcp_approval_response","approval_request_id":%q%s}`, id, approve)
	}
	later := q.ID[:strings.LastIndexByte(q.ID, '_')] + "_2"
	for name, c := range map[string]struct{ body, code, part string }{
		"an id of another program":   {body("["+response("mcpr_682d498e8e2881", `,"approve":true`)+"]", ""), "invalid_request", `There is no mcp_approval_request "mcpr_682d498e8e2881".`},
		"no decision":                {body("["+response(q.ID, "")+"]", ""), "invalid_request", "approve is true or false."},
		"two at once":                {body("["+response(q.ID, `,"approve":true`)+","+response(foreign.ID, `,"approve":true`)+"]", ""), "invalid_request", "Send one mcp_approval_response alone"},
		"words besides":              {body(`[{"role":"user","content":"yes"},`+response(q.ID, `,"approve":true`)+"]", ""), "invalid_request", "Send one mcp_approval_response alone"},
		"of another response":        {body("["+response(q.ID, `,"approve":true`)+"]", `,"previous_response_id":"`+other+`"`), "invalid_request", "The question is of the response " + id},
		"of another conversation":    {body("["+response(q.ID, `,"approve":true`)+"]", `,"conversation":"other"`), "invalid_request", "The question is of the conversation s."},
		"one that was not asked yet": {body("["+response(later, `,"approve":true`)+"]", ""), "other_question", "another one is open: " + q.ID},
	} {
		status, got := r.post("/v1/responses", c.body)
		failure, _ := got["error"].(map[string]any)
		if message, _ := failure["message"].(string); status != 400 || failure["code"] != c.code || !strings.Contains(message, c.part) {
			t.Errorf("%s: %d %v", name, status, failure)
		}
	}

	// The question is still open. After it the turn waits for a value.
	history := `[{"role":"user","content":"go"},{"type":"item_reference","id":"` + q.ID + `"},` + response(q.ID, `,"approve":true,"reason":"why not"`) + "]"
	status, got := r.post("/v1/responses", body(history, `,"background":true,"conversation":"s"`))
	expect.Equal(t, "status", fmt.Sprint(status, got["error"]), "200 <nil>")
	expect.Soon(t, "the wait", func() bool {
		info, err := r.client.Session("s").Info(t.Context())
		expect.OK(t, err)
		return info.WaitsFor == "paid"
	})
	_, err := r.sdk.Responses.New(t.Context(), approving(id, q.ID, true))
	r.refused(err, 400, "no_question", `The turn waits for the value "paid", which no approval gives: send it with POST /v1/sessions/s/answers/KEY.`)
}

// The rights are those of approve and deny: the question's approvers, else who sent the message. Who may not read follows
// only its own responses.
func TestWhoMayApprove(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "alice send read", "bob send read", "carol send", "root send read control"))
	r.workerOf(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		q := agent.Question{Name: "pay"}
		if who := turn.Messages[0].Text; who != "anyone" {
			q.Approvers = []string{who}
		}
		d, err := turn.Ask(ctx, q)
		return agent.Result{Text: string(d)}, err
	}))
	for _, c := range []struct{ sender, approvers, decides, code string }{
		{"alice", "anyone", "bob", "forbidden"},
		{"alice", "anyone", "carol", "forbidden"},
		{"alice", "anyone", "alice", ""},
		{"alice", "anyone", "root", ""},
		{"carol", "anyone", "carol", ""},
		{"alice", "bob", "alice", "forbidden"},
		{"alice", "bob", "root", "forbidden"},
		{"alice", "bob", "bob", ""},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			r := *r
			r.T = t
			name := strings.Join([]string{c.sender, c.approvers, c.decides}, "-")
			id, _ := background(t, r.at(r.url, option.WithAPIKey(c.sender)), name, c.approvers)
			q := r.questionOf(r.at(r.url, option.WithAPIKey("root")), id, "")
			client := r.at(r.url, option.WithAPIKey(c.decides), option.WithMaxRetries(0))
			got, err := client.Responses.New(t.Context(), approving(id, q.ID, true))
			if c.code != "" {
				r.refused(err, 403, c.code, "")
				_, err = r.client.Session(name).Decide(t.Context(), "", session.Deny)
				expect.OK(t, err)
				return
			}
			expect.OK(t, err)
			expect.Equal(t, "text", got.OutputText(), "allow")
			lines, err := admin.NewClient(r.redis).Session(name).Audit(t.Context())
			expect.OK(t, err)
			expect.Equal(t, "audit", fmt.Sprint(len(lines), " ", lines[0].By), "1 "+c.decides)
		})
	}
}

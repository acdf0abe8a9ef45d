package board_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"turnstile"

	"turnstile/internal/http/board"
	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A message that was steered into the turn is shown with the turn, and not in the queue too.
func TestSteeredIsShownOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	expect.OK(t, r.client.Session("web:1").SetQueue(t.Context(), session.QueueSettings{Mode: session.ModeSteer}))
	r.send("web:1", "tool=look:1m stream=1 first")
	expect.Soon(t, "the tool", func() bool { return strings.Contains(r.get("/board/s/web:1").text, "<b>look</b>") })
	r.send("web:1", "a remark in between")
	var p page
	expect.Soon(t, "the steer", func() bool {
		p = r.get("/board/s/web:1")
		_, turn, _ := strings.Cut(p.text, `id="turn"`)
		turn, _, _ = strings.Cut(turn, "</section>")
		return strings.Contains(turn, "a remark in between")
	})
	expect.Equal(t, "times that it is shown", strings.Count(p.text, "a remark in between"), 1)
}

// An idle session shows a pending resume as a plan, not as an activity.
func TestIdleSessionWithAMark(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("web:1", "hello")
	expect.OK(t, r.redis.HSet(t.Context(), rediskey.For("web:1").Resume(), "pending", "1", "reason", "crash").Err())
	r.has(r.get("/board/s/web:1"), 200, `class="state idle"`, "<span>the next message resumes an interrupted turn (crash)</span>")
}

// A question shows when it expires, also to visitors who may not decide it.
func TestQuestionCountsDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	r.worker()
	r.send("web:1", "ask=rm go on")
	for _, name := range []string{"reader", "boss"} {
		r.login(name)
		expect.Soon(t, "the question", func() bool { return strings.Contains(r.get("/board/s/web:1").text, "if nobody decides") })
		r.has(r.get("/board/s/web:1"), 200, `data-left="2`, ">in 5 min<")
	}
}

// Whoever approves sees for whom: the sender, its name and the time of the turn's message. A waiting message, a dead letter and
// an entry have their senders, too.
func TestSendersAreShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	send := func(id, text string) {
		_, err := r.client.Session("web:1").Send(t.Context(), turnstile.Message{ID: id, Text: text, Meta: map[string]string{"sender": "web/ada", "sender_name": "Ada <b>"}})
		expect.OK(t, err)
	}
	const who = `<span class="sender">web/ada (Ada &lt;b&gt;)`
	send("m1", "fail=final x")
	_, err := r.client.Session("web:1").Wait(t.Context(), "m1")
	expect.OK(t, err)
	send("m2", "ask=rm go on")
	expect.Soon(t, "the question", func() bool { return strings.Contains(r.get("/board/s/web:1").text, "The agent asks") })
	send("m3", "next")
	p := r.get("/board/s/web:1")
	r.has(p, 200, "<h3>user "+who+"</span> <time", "message of "+who+"</span> <time", ">now</time>: ask=rm go on</p>",
		"queued</span> "+who+":</span> next", "failed</span> "+who+":</span> <span>fail=final x")
	_, err = r.client.Session("web:1").Decide(t.Context(), "1", session.Allow)
	expect.OK(t, err)
	_, err = r.client.Session("web:1").Wait(t.Context(), "m3")
	expect.OK(t, err)
	r.has(r.get("/board/s/web:1"), 200, `<article class="entry user" data-row><h3>user `+who+"</span> <time")
}

// A running turn says for how long it runs, in the list and on its page, and so does its tool. The page has the agent, what
// was used, outcomes that are owed, and for operators who did what.
func TestFactsOfASession(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	r.worker()
	r.say("web:1", "usage=1200:350 one")
	r.say("web:1", "usage=1000:50 two")
	_, err := r.client.Session("web:1").As("boss/ada").Undo(t.Context())
	expect.OK(t, err)
	r.say("web:1", "usage=100:5 three")
	r.send("web:1", "tool=look:1m four", actors.ReplyTo(wire.Route{To: "erp"}))
	r.login("boss")
	expect.Soon(t, "the tool", func() bool { return strings.Contains(r.get("/board/s/web:1").text, "<b>look</b>") })
	p := r.get("/board/s/web:1")
	r.has(p, 200, "<span>agent default</span>", "<span>1300 tokens in, 355 out", "<span>1 outcome owed</span>",
		`<span class="pulse">runs</span> <span class="sender"><time role="timer" data-running="`, `<span class="tag">undo</span> <span>boss/ada</span>`)
	row, _, _ := strings.Cut(r.get("/board/").text, "</tbody>")
	_, row, _ = strings.Cut(row, `data-row="web:1"`)
	if !strings.Contains(row, `<td class="when">for <time role="timer" data-running="`) || strings.Contains(row, "ago") {
		t.Errorf("the row of a running turn: %s", row)
	}
	r.login("reader")
	r.lacks(r.get("/board/s/web:1"), "Who did what")
}

// The pages name turns and messages as the log does, and one dead letter runs again alone.
func TestIDsAndOneRerun(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	r.worker()
	done, failed, other := r.say("web:1", "hello"), r.say("web:1", "fail=final"), r.say("web:1", "fail=final again")
	r.login("reader")
	p := r.get("/board/s/web:1")
	r.has(p, 200, "turn <code class=\"id\">"+done.Turn, "message <code class=\"id\">"+failed.ID, "turn <code class=\"id\">"+failed.Turn,
		"as the log names it\">"+done.ID) // the entry of the user
	r.lacks(p, "Rerun this")
	r.login("boss")
	r.has(r.get("/board/s/web:1"), 200, "Rerun this", `href="/asynqmon/queues/session:web:1"`)
	r.has(r.post("/board/s/web:1/rerun", url.Values{"letter": {failed.ID}}), 200, "Dead letters requeued: 1.")
	again, err := r.client.Session("web:1").Wait(t.Context(), failed.ID)
	expect.OK(t, err)
	if again.Turn == failed.Turn {
		t.Error("the letter did not run again")
	}
	kept, _, err := actors.Result(t.Context(), r.client.Session("web:1"), other.ID)
	expect.OK(t, err)
	expect.Equal(t, "the other letter's turn", kept.Turn, other.Turn)
	r.has(r.post("/board/s/web:1/rerun", url.Values{"letter": {"unknown"}}), 200, "Dead letters requeued: 0.")
}

// A visitor who sees every session has an overview of the workers and of waiting work. Others get
// none.
func TestOverview(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	r.login("boss")
	r.send("web:1", "usage=12000:350 sleep=1m")
	expect.Soon(t, "a wait of more than nothing", func() bool { return strings.Contains(r.get("/board/").text, ", the first for ") })
	r.has(r.get("/board/"), 200, "No worker sends a heartbeat.", "<b>1</b> waits for a slot, the first for ", `href="/asynqmon"`)
	r.lacks(r.get("/board/"), "today")
	r.workerOf(echo.New())
	expect.Soon(t, "the worker's heartbeat", func() bool {
		p := r.get("/board/")
		return strings.Contains(p.text, "<b>1</b> of 10 slots busy, on 1 worker, up to 5 s ago<") && strings.Contains(p.text, "<b>0</b> wait for a slot<") &&
			strings.Contains(p.text, "<b>12k</b> tokens in and <b>350</b> out today<")
	})
	r.send("web:2", "fail=final x")
	r.send("web:3", "ask=rm x")
	expect.Soon(t, "the sessions are counted by state", func() bool {
		text := r.get("/board/").text
		return strings.Contains(text, "<b>1</b> asking") && strings.Contains(text, "<b>1</b> with dead letters") && strings.Contains(text, "<b>3</b> sessions in all")
	})
	r.login("reader")
	r.lacks(r.get("/board/"), "overview", "asynqmon")
}

// The overview says which worker cannot start its agent, and why.
func TestOverviewOfASickWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss)
	r.login("boss")
	r.workerOf(agent.Func(func(context.Context, *agent.Turn) (agent.Result, error) {
		return agent.Result{}, agent.Unavailable(errors.New("no <files>"))
	}))
	r.send("web:1", "hello")
	expect.Soon(t, "the reason, with the next heartbeat", func() bool {
		return strings.Contains(r.get("/board/").text, "cannot start agent default: no &lt;files&gt; (worker worker-1)")
	})
}

// Two workers whose default agents differ take turns of the same sessions.
func TestOverviewOfDifferentAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, r.kind = range []string{"echo", "go:other"} {
		r.worker()
	}
	expect.Soon(t, "both agents", func() bool {
		return strings.Contains(r.get("/board/?state=attention").text, "so it is chance which one runs a turn: echo, go:other.")
	})
}

// A message that was handed to the agent is shown, however many wait, unless it is shown with the turn.
func TestSteeredIsShownBeforeALongQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 50 {
		_, err := r.client.Session("web:1").Send(t.Context(), turnstile.Message{ID: fmt.Sprint("m", i), Text: "waits"})
		expect.OK(t, err)
	}
	b := board.New(r.gateway, board.Deps{Client: r.client, Admin: admin.NewClient(r.redis)})
	steered := []gateway.Followup{{ID: "new", Text: "steer", State: "steered"}, {ID: "known", State: "steered"}, {ID: "m1", State: "queued"}}
	list, err := b.ReadLine(t.Context(), gateway.SessionView{Session: "web:1", Followups: steered, Messages: []string{"known"}})
	expect.OK(t, err)
	expect.Equal(t, "messages", len(list), 41)
	expect.Equal(t, "the first", list[0].ID+" "+string(list[0].State)+" "+list[1].ID, "new steered m0")
}

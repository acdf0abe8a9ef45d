package model

import (
	"slices"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/modelserver"
)

// offers are steers. The channel is buffered, unlike a worker's, so that a test knows that a steer
// waits when the agent looks.
type offers struct {
	channel  chan agent.Steer
	accepted []string // read it after the turn
}

func newOffers() *offers { return &offers{channel: make(chan agent.Steer, 8)} }

// offer is a step of a stream at which a steer arrives.
func (o *offers) offer(m session.Message) modelserver.Step {
	return modelserver.Do(func() {
		o.channel <- agent.NewSteer(m, func() { o.accepted = append(o.accepted, m.ID) })
	})
}

func (o *offers) turn() *agent.Turn {
	tn := turn("go")
	tn.Host.Steers = o.channel
	return tn
}

// The results follow the calls, and the steers follow the results.
func TestSteerBetweenRounds(t *testing.T) {
	t.Parallel()
	o := newOffers()
	r := newRig(t, Config{Tools: []Tool{shell("cat", "cat")}},
		modelserver.Stream(modelserver.Call("c1", "cat", "{}"), modelserver.Call("c2", "cat", "{}"),
			o.offer(session.Message{ID: "s1", Text: "no, that", Attachments: []session.Attachment{{Name: "f", Path: "/f"}}}),
			o.offer(session.Message{ID: "s2", Text: "quick"})),
		text("done"))
	r.must(o.turn())
	if !slices.Equal(o.accepted, []string{"s1", "s2"}) {
		t.Errorf("accepted %v", o.accepted)
	}
	r.wasAsked(2, `
user: go
assistant:  c1=cat({}) c2=cat({})
tool: {} =c1
tool: {} =c2
user: no, that

[Attachment: f: /f]

quick`)
	r.requests(2)
}

// A steer that waits when the model has finished continues the turn, also if the model's reply was
// empty.
func TestLateSteer(t *testing.T) {
	t.Parallel()
	o := newOffers()
	r := newRig(t, Config{},
		modelserver.Stream(modelserver.Thought("hm"), o.offer(session.Message{ID: "s1", Text: "and this"})),
		modelserver.Stream(modelserver.Text("second"), o.offer(session.Message{ID: "s2", Text: "and that"})),
		text("third"))
	r.must(o.turn())
	if !slices.Equal(o.accepted, []string{"s1", "s2"}) {
		t.Errorf("accepted %v", o.accepted)
	}
	r.wasAsked(3, "user: go\n\nand this\nassistant: second\nuser: and that")
	r.told("thought: hm\ntext: secondthird")
}

// A turn that fails takes no steer, and neither does one before its first reply: steers stay in the
// session's line.
func TestSteerThatIsNotTaken(t *testing.T) {
	t.Parallel()
	o := newOffers()
	r := newRig(t, Config{MaxRetries: -1}, modelserver.Stream(o.offer(session.Message{ID: "s1", Text: "late"}), modelserver.Text("a"), modelserver.Cut()))
	r.says(r.run(o.turn()), false, "broke off")
	if len(o.accepted) > 0 || len(o.channel) != 1 {
		t.Errorf("accepted %v, %d left", o.accepted, len(o.channel))
	}
	r.requests(1)
}

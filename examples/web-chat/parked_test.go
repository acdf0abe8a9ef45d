package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/browser"
	"turnstile/test/expect"
)

// The page of a visitor on another device is in a frame.
const (
	addDevice = `document.body.append(Object.assign(document.createElement("iframe"), {id: "other", src: "/"}))`
	device    = `document.querySelector("#other").contentDocument`
	question  = `.querySelector("#log > .question")`
	waits     = question + `?.textContent.endsWith("Deny\nIt waits for your decision.")`
)

// asks has a turn that waits without a worker, on two devices. No worker lives.
func asks(t *testing.T) (*browser.Page, *rig) {
	t.Helper()
	p, r := browser.Open(t), newRig(t)
	w := r.worker(actors.Pays(), worker.Config{ParkAfter: time.Millisecond})
	p.Goto(r.page.URL)
	p.Eval(addDevice)
	p.Await(device + `?.querySelector("#text")`)
	p.Type("#text", "pay\r")
	for _, d := range []string{"document", device} {
		p.Await(d + waits)
	}
	expect.OK(t, w.Stop(t.Context()))
	return p, r
}

// overdue moves the question of the only session to long ago.
func (r *rig) overdue() {
	r.Helper()
	for s, err := range admin.NewClient(r.redis).Sessions(r.Context(), admin.Query{}) {
		expect.OK(r, err)
		k := rediskey.For(s.Session)
		task := r.redis.LIndex(r.Context(), k.Active(), 0).Val()
		expect.OK(r, r.redis.HSet(r.Context(), k.Run(), "hold", "1 "+task, "questions", fmt.Sprintf("1 %d 1 1", s.Fence)).Err())
		expect.OK(r, r.redis.ZAdd(r.Context(), rediskey.Due, redis.Z{Score: 1, Member: s.Session}).Err())
	}
}

// stopped reports whether the turn of the only session is to stop.
func (r *rig) stopped() bool {
	r.Helper()
	stops := false
	for s, err := range admin.NewClient(r.redis).Sessions(r.Context(), admin.Query{}) {
		expect.OK(r, err)
		stops = r.redis.HExists(r.Context(), rediskey.For(s.Session).Run(), "stop").Val()
	}
	return stops
}

// A question of a turn that waits without a worker is decided once, on either of two devices, however often they press.
func TestParkedQuestion(t *testing.T) {
	t.Parallel()
	p, r := asks(t)
	p.Eval(`[0, 0].map(() => document.querySelector("#log > .question button").click())`)
	p.AwaitText("#log > .question", "12 EUR\nApproved.")
	p.Eval(device + `.querySelectorAll("#log > .question button")[1].click()`) // too late, and no event came
	p.Await(device + question + `.textContent.endsWith("Not open any more.")`)
	r.worker(actors.Pays(), worker.Config{})
	for _, d := range []string{"document", device} {
		p.Await(d + `.querySelector("#log > .assistant")?.textContent === "It is paid."`)
		p.Await(d + question + `.textContent === "May I do this? pay\n12 EUR\nApproved."`)
		expect.Equal(t, "elements in "+d, p.Eval(d+`.querySelectorAll("#log > *").length`), "3")
	}
}

// After a reload the question is there, and it is decided.
func TestParkedQuestionAfterAReload(t *testing.T) {
	t.Parallel()
	p, r := asks(t)
	p.Reload()
	p.Await("document" + waits)
	p.Click("#log > .question button:last-of-type")
	p.AwaitText("#log > .question", "12 EUR\nDenied.")
	r.worker(actors.Pays(), worker.Config{})
	p.AwaitText("#log > .assistant", "It is not paid.")
	expect.Equal(t, "notes", bubbles(p, "note"), "")
}

// After a stop, and after the question's time, both devices say that it is not open any more.
func TestParkedQuestionThatEnds(t *testing.T) {
	t.Parallel()
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		p, r := asks(t)
		p.Click("#stop")
		r.worker(actors.Pays(), worker.Config{})
		for _, d := range []string{"document", device} {
			p.Await(d + question + `.textContent === "May I do this? pay\n12 EUR\nNot open any more."`)
			p.Await(d + `.querySelector("#log > .note").textContent.startsWith("stopped")`)
		}
	})
	t.Run("pressed after a stop", func(t *testing.T) {
		t.Parallel()
		p, r := asks(t)
		p.Click("#stop")
		expect.Soon(t, "the stop", r.stopped)
		p.Eval(device + `.querySelector("#log > .question button").click()`)
		p.Await(device + question + `.textContent.endsWith("Not open any more.")`)
	})
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		p, r := asks(t)
		r.overdue()
		r.worker(actors.Pays(), worker.Config{})
		for _, d := range []string{"document", device} {
			p.Await(d + question + `.textContent === "May I do this? pay\n12 EUR\nDenied."`)
			p.Await(d + `.querySelector("#log > .note").textContent.startsWith("No decision in 5m")`)
			p.Await(d + `.querySelector("#log > .assistant").textContent === "It is not paid."`)
		}
	})
}

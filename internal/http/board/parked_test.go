package board_test

import (
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/browser"
	"turnstile/test/expect"
)

// pays has a turn that waits for its decision without a worker.
func (r *rig) pays(key string, timeout time.Duration) {
	r.Helper()
	r.parking(actors.Pays(), time.Millisecond, timeout)
	r.send(key, "hello")
	r.parks(key)
}

// parks waits until a session's turn is parked.
func (r *rig) parks(key string) {
	r.Helper()
	expect.Soon(r, "the park", func() bool {
		info, err := r.client.Session(key).Info(r.Context())
		expect.OK(r, err)
		return info.Phase == session.PhaseParked
	})
}

// Without a script, the pages say that a turn is parked and when its question counts as denied.
func TestParkedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	r.pays("web:1", 2*time.Hour)
	info, err := r.client.Session("web:1").Info(t.Context())
	expect.OK(t, err)
	for _, name := range []string{"reader", "boss"} {
		r.login(name)
		p := r.get("/board/s/web:1")
		r.has(p, 200, "without a worker, and goes on when this is decided", "Denied if nobody decides by "+info.Until.UTC().Format("2006-01-02 15:04 UTC")+", ",
			`role="timer" data-left="7`, ">in 2 h<", `class="state parked"`)
		r.lacks(p, "<span>on ")
		r.has(r.get("/board/"), 200, "asks: pay", "parked, denied <time", `data-left="7`)
	}
}

// The pages say when a turn whose attempt failed tries again.
func TestParkedRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.send("web:1", "fail=retry hello")
	r.parks("web:1")
	r.has(r.get("/board/s/web:1"), 200, `class="state parked"`, "<span>tries again <time")
	r.has(r.get("/board/"), 200, "parked, tries again <time")
}

// In a browser the question of a parked turn counts down, in the list and on its page, and one decision on two
// devices is one.
func TestBrowserShowsAParkedTurn(t *testing.T) {
	t.Parallel()
	p, other := browser.Open(t), browser.Open(t)
	r := newRig(t)
	r.pays("web:1", 2*time.Hour)
	p.Goto(r.url + "/board/")
	p.Await(`/^in 1:59:\d\d h$/.test(document.querySelector("tbody time[data-left]").textContent)`)
	for _, page := range []*browser.Page{p, other} {
		page.Goto(r.url + "/board/s/web:1")
		page.Await(`/^in 1:59:\d\d h$/.test(document.querySelector(".question time[data-left]").textContent)`)
	}
	place := `JSON.stringify(document.querySelector("#approve").getBoundingClientRect())`
	before, text := p.Eval(place), p.Text(".question time[data-left]")
	p.Eval("window.card = document.querySelector('.question')")
	p.Await(`document.querySelector(".question time[data-left]").textContent !== "` + text + `"`)
	expect.Equal(t, "place of the button", p.Eval(place), before)
	id := r.send("web:1", "another") // an event: the page is read again
	p.AwaitText("#line", "another")
	expect.Equal(t, "the card was not exchanged", p.Eval("document.querySelector('.question') === window.card"), "true")

	other.Eval("fetch = () => new Promise(() => {})") // it learns of nothing any more
	_, err := r.client.Session("web:1").Cancel(t.Context(), id)
	expect.OK(t, err)
	p.Click("#approve")
	p.AwaitText("#transcript", "It is paid.")
	other.Click("#deny")
	other.AwaitText(".problem", "No question is open") // its turn has ended
	other.AwaitText("#transcript", "It is paid.")
}

package simulate

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/outbox"
	"turnstile/pkg/session"
)

// Each rule for deliveries finds what breaks it.
func TestDeliveryRules(t *testing.T) {
	t.Parallel()
	one := func(message, id string, sequence int64) post {
		return post{session: "chat1", id: id, kind: "message.done", messages: []string{message}, sequence: sequence, sent: time.Now().Unix(), attempt: 1}
	}
	second := one("m1", "d1", 1)
	second.attempt = 2
	for name, c := range map[string]struct {
		rule    string
		refused []post // the receiver does not handle them
		posts   []post
	}{
		"outcomes in order":       {posts: []post{one("m1", "d1", 1), one("m2", "d2", 2)}},
		"outcomes out of order":   {rule: "handled", posts: []post{one("m2", "d2", 1), one("m1", "d1", 2)}},
		"a redriven outcome":      {refused: []post{one("m1", "d1", 1)}, posts: []post{one("m2", "d2", 2), one("m1", "d1", 3)}},
		"two deliveries of one":   {rule: "delivered", posts: []post{one("m1", "d1", 1), one("m1", "d3", 2)}},
		"a silent second attempt": {rule: "claim", posts: []post{one("m1", "d1", 1), second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory()
			for _, id := range []string{"m1", "m2"} {
				h.sent = append(h.sent, &sent{session: "chat1", id: id, accepted: true, outcome: &session.Outcome{Status: session.StatusFailed}})
			}
			for _, p := range c.refused {
				h.got(p)
			}
			for _, p := range c.posts {
				h.handle(p)
			}
			h.checkOrder("chat1", nil)
			if found := strings.Join(h.findings, "\n"); found != "" != (c.rule != "") || !strings.HasPrefix(found, c.rule) {
				t.Errorf("found %q, want something of %q", found, c.rule)
			}
		})
	}
}

// In the calm, a delivery that is to be tried again is late once its wait is over.
func TestRetriesInTheCalm(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for after, late := range map[time.Duration]bool{1200 * time.Millisecond: false, 2200 * time.Millisecond: false, 5 * time.Second: true} {
		h := newHistory()
		h.calm = at.Add(-time.Minute)
		h.turns = []turn{{session: "chat1", messages: []string{"m1"}, began: at, ended: at}}
		for _, p := range []post{{putOff: true, at: at}, {at: at.Add(after)}} {
			p.session, p.id, p.messages = "chat1", "d1", []string{"m1"}
			h.posts = append(h.posts, p)
		}
		h.checkCalm()
		if len(h.findings) > 0 != late {
			t.Errorf("again after %v: %v", after, h.findings)
		}
	}
}

// The receiver puts off, once, also what it did not refuse before it was fair.
func TestReceiverIsBusyOnce(t *testing.T) {
	t.Parallel()
	r, err := newReceiver(&life{seed: 1, history: newHistory()})
	if err != nil {
		t.Fatal(err)
	}
	busy := 0
	for i := range 100 {
		id := strconv.Itoa(i)
		refused := r.refuses(id)
		if r.isBusy(id) {
			busy++
		}
		if r.isBusy(id) || r.refuses(id) != refused {
			t.Errorf("%s is put off twice, or was refused once: %v", id, refused)
		}
	}
	if busy == 0 || busy == 100 {
		t.Errorf("%d of 100 are put off", busy)
	}
}

// The receiver does step 1 and step 3 of docs/webhooks.md, and a delivery that fails them is a finding.
func TestReceiverChecks(t *testing.T) {
	t.Parallel()
	const own, foreign = `{"data":{"session":"chat1","context":{"session":"chat1"}}}`, `{"data":{"session":"chat1","context":{"session":"chat2"}}}`
	for name, c := range map[string]struct {
		body, path string
		age        time.Duration
		forge      bool
		code       int
		rule       string
	}{
		"as it should be": {body: own, code: http.StatusNoContent},
		"forged":          {body: own, forge: true, code: http.StatusUnauthorized, rule: "signature"},
		"old":             {body: own, age: 6 * time.Minute, code: http.StatusUnauthorized, rule: "signature"},
		"redirected":      {body: own, path: moved, code: http.StatusNoContent, rule: "redirect"},
		"another's chat":  {body: foreign, code: http.StatusUnprocessableEntity, rule: "context"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &life{seed: 1, history: newHistory()}
			r, err := newReceiver(l)
			if err != nil {
				t.Fatal(err)
			}
			r.fair.Store(true)
			hook, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(-c.age)
			signature, err := hook.Sign("d1", at, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.forge {
				signature = "v1,Zm9yZ2Vk"
			}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://hook.example/"+c.path, strings.NewReader(c.body))
			for name, value := range map[string]string{
				"webhook-id": "d1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10), "webhook-signature": signature, outbox.HeaderSequence: "1",
			} {
				req.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			if found := strings.Join(l.history.findings, "\n"); w.Code != c.code || found != "" != (c.rule != "") || !strings.HasPrefix(found, c.rule) {
				t.Errorf("%d, found %q, want %d and something of %q", w.Code, found, c.code, c.rule)
			}
		})
	}
}

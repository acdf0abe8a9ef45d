package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/test/history"
	"turnstile/test/webhook"
)

const secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"

// The receiver does steps 1 and 3 of docs/webhooks.md, and records deliveries that fail them.
func TestRead(t *testing.T) {
	t.Parallel()
	const own, foreign = `{"data":{"session":"plain:1","context":{"session":"plain:1"}}}`, `{"data":{"session":"plain:1","context":{"session":"plain:2"}}}`
	for name, c := range map[string]struct {
		body, path  string
		age         time.Duration
		forge       bool
		wrongClocks bool
		code        int
		valid       bool
		wrong       bool // the record has an error
	}{
		"as it should be":      {body: own, code: 204, valid: true},
		"forged":               {body: own, forge: true, code: 401},
		"old":                  {body: own, age: 6 * time.Minute, code: 401},
		"of a wrong clock":     {body: own, age: 6 * time.Minute, wrongClocks: true, code: 204, valid: true},
		"forged, wrong clocks": {body: own, forge: true, wrongClocks: true, code: 401},
		"redirected":           {body: own, path: webhook.Moved, code: 204, valid: true, wrong: true},
		"another's chat":       {body: foreign, code: 422, valid: true, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := webhook.New(secret)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			sent := time.Now().Add(-c.age)
			signature, err := signer.Sign("d1", sent, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.forge {
				signature = "v1,Zm9yZ2Vk"
			}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://hook.example"+c.path, strings.NewReader(c.body))
			for name, value := range map[string]string{
				"webhook-id": "d1", "webhook-timestamp": strconv.FormatInt(sent.Unix(), 10), "webhook-signature": signature,
				"Turnstile-Sequence": "7", "Turnstile-Attempt": "2", "Turnstile-Possible-Duplicate": "true",
			} {
				req.Header.Set(name, value)
			}
			rec, err := r.Read(req, c.wrongClocks)
			if err != nil || rec.Code != c.code || rec.Valid != c.valid || rec.Error != "" != c.wrong {
				t.Errorf("%+v, %v", rec, err)
			}
			if rec.ID != "d1" || rec.N != 7 || rec.Attempt != 2 || !rec.Again || rec.Since != sent.Unix()*int64(time.Second) || rec.Session != "plain:1" {
				t.Errorf("%+v", rec)
			}
		})
	}
}

// The receiver drops a delivery that is not newer, and a duplicate that says that it may be one.
func TestHandle(t *testing.T) {
	t.Parallel()
	r, err := webhook.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id    string
		n     int64
		again bool
		done  bool
	}{
		{"d1", 2, false, true}, {"d2", 1, false, false}, {"d1", 2, true, false}, {"d1", 3, true, false}, {"d3", 3, true, true}, {"d1", 4, false, true},
	} {
		rec := history.Record{Session: "plain:1", ID: c.id, N: c.n, Again: c.again}
		if r.Handle(&rec); rec.Done != c.done {
			t.Errorf("%+v", rec)
		}
	}
}

package traffic

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/chaos/internal/history"
)

// The receiver does step 1 and step 3 of docs/webhooks.md, and records what fails them.
func TestHookChecks(t *testing.T) {
	t.Parallel()
	const own, foreign = `{"data":{"session":"plain:1","context":{"session":"plain:1"}}}`, `{"data":{"session":"plain:1","context":{"session":"plain:2"}}}`
	for name, c := range map[string]struct {
		body, path string
		age        time.Duration
		forge      bool
		moved      bool // a worker's clock is
		code       int
		valid      bool
		wrong      bool // the record has an error
	}{
		"as it should be":     {body: own, code: 204, valid: true},
		"forged":              {body: own, forge: true, code: 401},
		"old":                 {body: own, age: 6 * time.Minute, code: 401},
		"of a moved clock":    {body: own, age: 6 * time.Minute, moved: true, code: 204, valid: true},
		"forged, moved clock": {body: own, forge: true, moved: true, code: 401},
		"redirected":          {body: own, path: moved, code: 204, valid: true, wrong: true},
		"another's chat":      {body: foreign, code: 422, valid: true, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, err := history.Open(dir, "hook")
			if err != nil {
				t.Fatal(err)
			}
			if c.moved {
				clocks := filepath.Join(dir, "clocks")
				if err := errors.Join(os.Mkdir(clocks, 0o755), os.WriteFile(filepath.Join(clocks, "worker1.clock"), []byte("12345678"), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			h, err := NewHook(t.Context(), log, dir)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			h.Kind()
			at := time.Now().Add(-c.age)
			signature, err := h.verify.Sign("d1", at, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.forge {
				signature = "v1,Zm9yZ2Vk"
			}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://hook.example/hook"+c.path, strings.NewReader(c.body))
			for name, value := range map[string]string{
				"webhook-id": "d1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10), "webhook-signature": signature, "Turnstile-Sequence": "1",
			} {
				req.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.receive(w, req)
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			records, err := history.Load(dir)
			if err != nil || len(records) != 1 {
				t.Fatal(records, err)
			}
			if r := records[0]; w.Code != c.code || r.Code != c.code || r.Valid != c.valid || r.Error != "" != c.wrong || r.Done != (c.code == 204) {
				t.Errorf("%d, %+v", w.Code, r)
			}
		})
	}
}

package outbox_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/outbox"
	"turnstile/test/expect"
)

// snippet is the block of docs/webhooks.md in a language.
func snippet(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/webhooks.md")
	expect.OK(t, err)
	_, text, found := strings.Cut(string(page), "```"+language+"\n")
	text, _, closed := strings.Cut(text, "```\n")
	if !found || !closed {
		t.Fatalf("docs/webhooks.md has no block in %s", language)
	}
	return text
}

// The file of destinations on the page is one.
func TestPageHasAFile(t *testing.T) {
	t.Parallel()
	all, err := outbox.ParseDestinations([]byte(snippet(t, "json")))
	expect.OK(t, err)
	expect.Equal(t, "the destination", all.Routes().For("telegram:42"), "bot")
}

// verifiers run a snippet as a program. Its arguments are the secret, the id, the time and the signature.
// It reads the body from stdin, and exits with 0 if the delivery is verified.
var verifiers = map[string]struct {
	program, file string
	whole         func(snippet string) string
	command       []string
}{
	"python": {"python3", "verify.py", func(s string) string {
		return s + `
import sys
headers = dict(zip(["webhook-id", "webhook-timestamp", "webhook-signature"], sys.argv[2:]))
sys.exit(0 if verified(sys.argv[1], headers, sys.stdin.buffer.read()) else 1)
`
	}, []string{"python3"}},
	"typescript": {"node", "verify.mjs", func(s string) string { // without its types it is JavaScript
		return regexp.MustCompile(`: (string|Buffer|boolean|Record<string, string>)`).ReplaceAllString(s, "") + `
import { readFileSync } from "node:fs";
const [secret, id, at, signature] = process.argv.slice(2);
const headers = {"webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature};
process.exit(verified(secret, headers, readFileSync(0)) ? 0 : 1);
`
	}, []string{"node"}},
	"go": {"go", "verify.go", func(s string) string {
		return "package main\n\n" + strings.Replace(s, "import (", "import (\n\t\"io\"\n\t\"os\"", 1) + `
func main() {
	h := http.Header{}
	h.Set("webhook-id", os.Args[2])
	h.Set("webhook-timestamp", os.Args[3])
	h.Set("webhook-signature", os.Args[4])
	body, _ := io.ReadAll(os.Stdin)
	if !verified(os.Args[1], h, body) {
		os.Exit(1)
	}
}
`
	}, []string{"go", "run"}},
}

// The page's snippets accept Turnstile's signatures, and refuse others.
func TestSnippetsVerify(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	const other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	body := []byte("{\"type\":\"message.done\",\"é\":\"\\u00e9\"}")
	hook, err := standardwebhooks.NewWebhook(secret)
	expect.OK(t, err)
	now, old := time.Now(), time.Now().Add(-6*time.Minute)
	good, err := hook.Sign("id-1", now, body)
	expect.OK(t, err)
	replayed, err := hook.Sign("id-1", old, body)
	expect.OK(t, err)
	for language, v := range verifiers {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(v.program); err != nil {
				t.Skipf("no %s on PATH", v.program)
			}
			file := filepath.Join(t.TempDir(), v.file)
			expect.OK(t, os.WriteFile(file, []byte(v.whole(snippet(t, language))), 0o600))
			verify := func(secret, id string, at time.Time, signature string, body []byte) bool {
				cmd := exec.Command(v.command[0], append(v.command[1:], file, secret, id, strconv.FormatInt(at.Unix(), 10), signature)...)
				cmd.Stdin = bytes.NewReader(body)
				out, err := cmd.CombinedOutput()
				if text := string(out); text != "" && !strings.HasPrefix(text, "exit status 1") { // of go run
					t.Errorf("it printed %s", text)
				}
				return err == nil
			}
			expect.Equal(t, "a delivery", verify(secret, "id-1", now, good, body), true)
			expect.Equal(t, "one of two secrets", verify(secret, "id-1", now, "v1,b3RoZXI= "+good, body), true)
			expect.Equal(t, "another secret", verify(other, "id-1", now, good, body), false)
			expect.Equal(t, "another id", verify(secret, "id-2", now, good, body), false)
			expect.Equal(t, "another body", verify(secret, "id-1", now, good, append(body, ' ')), false)
			expect.Equal(t, "a replay", verify(secret, "id-1", old, replayed, body), false)
			expect.Equal(t, "no signature", verify(secret, "id-1", now, "", body), false)
		})
	}
	t.Run("sh", func(t *testing.T) {
		t.Parallel()
		for _, program := range []string{"curl", "openssl"} {
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("no %s on PATH", program)
			}
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if err := hook.Verify(body, r.Header); err != nil {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		t.Cleanup(s.Close)
		for given, want := range map[string]string{secret: "200", other: "401"} {
			out, err := exec.Command("sh", "-c", snippet(t, "sh"), "sh", s.URL, given).CombinedOutput()
			expect.OK(t, err)
			expect.Equal(t, fmt.Sprintf("the answer to %s", given), strings.TrimSpace(string(out)), want)
		}
	})
}

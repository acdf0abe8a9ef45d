package connections

import (
	"strings"
	"testing"
	"time"

	"turnstile/test/program"
	"turnstile/test/redistest"
)

// A message crosses a Redis that asks for client certificates. A failed connection is reported in
// one line that names the setting to change.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, time.Now().Add(time.Hour))
	settings := func(url string) []string {
		return []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=error"}
	}
	sender := func(url string) []string { return settings(url)[:1] }
	good := s.URL("tls_ca", s.CA, "tls_cert", s.Cert, "tls_key", s.Key)
	program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), settings(good)))
	if r := call(t, sender(good), "enqueue", "-s", "a", "--wait", "hello"); r.code != exitOK || r.out != "echo: hello\n" {
		t.Errorf("enqueue: %+v", r)
	}
	if r := call(t, settings(good), "worker", "show", "a"); r.code != exitOK {
		t.Errorf("worker show: %+v", r)
	}

	expired, key := s.Issue(t, time.Now().Add(-time.Hour))
	for _, c := range []struct {
		url, says string
		code      int
	}{
		{s.URL("tls_ca", redistest.NewAuthority(t).CA), "tls_ca=", exitOther},
		{s.URL("tls_ca", s.CA), "client certificate", exitOther},
		{s.URL("tls_ca", "/nowhere"), "/nowhere", exitUsage},
		{s.URL("tls_cert", expired, "tls_key", key), "expired", exitUsage},
	} {
		check := func(r result, name string) {
			t.Helper()
			if r.code != c.code || len(r.lines()) != 1 || !strings.HasPrefix(r.err, name+": ") || !strings.Contains(r.err, c.says) {
				t.Errorf("%s: exit code %d, %q; want %d, one line with %q", name, r.code, r.err, c.code, c.says)
			}
		}
		check(call(t, settings(c.url), "worker", "ps"), "worker")
		check(call(t, settings(c.url), "worker"), "worker")
		sent := call(t, sender(c.url), "enqueue", "-s", "a", "hello")
		check(sent, "enqueue")
		if c.code == exitOther && !strings.Contains(sent.err, "nothing was stored") {
			t.Errorf("enqueue does not say that nothing was stored: %q", sent.err)
		}
		if c.code == exitUsage && !strings.Contains(sent.err, "REDIS_URL") {
			t.Errorf("enqueue does not name the setting: %q", sent.err)
		}
	}
}

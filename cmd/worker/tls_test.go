package main

import (
	"strings"
	"testing"
	"time"

	"turnstile/test/redistest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, time.Now().Add(time.Hour))
	url := s.URL("tls_ca", s.CA, "tls_cert", s.Cert, "tls_key", s.Key)
	w := echoWorker(t, url)
	if got := reply(t, client(t, url), "a", "hello"); !strings.Contains(got, "hello") {
		t.Errorf("reply %q", got)
	}
	call(t, []string{"REDIS_URL=" + url}, "show", "a").want(t, exitOK)
	w.stop(t)

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
		for _, args := range [][]string{{"ps"}, {}} {
			r := call(t, []string{"REDIS_URL=" + c.url, "TURNSTILE_LOG_LEVEL=error", "TURNSTILE_AGENT=echo"}, args...)
			if r.code != c.code || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, c.says) {
				t.Errorf("worker %v: exit code %d, %q; want %d, one line with %q", args, r.code, r.err, c.code, c.says)
			}
		}
	}
}

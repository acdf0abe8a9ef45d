package main

import (
	"testing"
	"time"

	"turnstile/test/redistest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, time.Now().Add(time.Hour))
	url := s.URL("tls_ca", s.CA, "tls_cert", s.Cert, "tls_key", s.Key)
	turns(t, url, hour, echo)
	if r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", "hello").want(t, exitOK); r.out != "echo: hello\n" {
		t.Errorf("%+v", r)
	}
	enqueue(t, bg(t), s.URL("tls_ca", redistest.NewAuthority(t).CA), "", "-s", "a", "hello").want(t, exitOther).oneLine(t, "tls_ca=", "nothing was stored")
	enqueue(t, bg(t), s.URL("tls_ca", s.CA), "", "-s", "a", "hello").want(t, exitOther).oneLine(t, "client certificate", "nothing was stored")
	enqueue(t, bg(t), s.URL("tls_ca", "/nowhere"), "", "-s", "a", "hello").want(t, exitUsage).oneLine(t, "REDIS_URL", "/nowhere")
	expired, key := s.Issue(t, time.Now().Add(-time.Hour))
	enqueue(t, bg(t), s.URL("tls_cert", expired, "tls_key", key), "", "-s", "a", "hello").want(t, exitUsage).oneLine(t, "REDIS_URL", "expired")
}

package outbox

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"turnstile/internal/backoff"
	"turnstile/test/expect"
)

// A breaker follows the pauses of other deliverers. After a pause it admits a probe; when the destination
// works again, everything.
func TestBreakerFollows(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := &breaker{open: backoff.Backoff{First: 8 * time.Second, Longest: 32 * time.Second, Spread: true}}
	b.follow(now.Add(time.Minute))
	if wait := b.wait(now); wait != time.Minute {
		t.Errorf("the pause is %s", wait)
	}
	b.follow(now.Add(time.Hour)) // its own pause counts
	now = now.Add(time.Minute)
	probe, wait := b.admit(now)
	expect.Equal(t, "a probe", probe, true)
	expect.Equal(t, "its wait", wait, time.Duration(0))
	_, wait = b.admit(now)
	expect.Equal(t, "the wait beside it", wait, probeWait)
	what, _ := b.done("one", probe, failing, now)
	expect.Equal(t, "a probe that fails", what, reopened)
	b.follow(time.Time{})
	expect.Equal(t, "the wait after the pause has ended", b.wait(now), time.Duration(0))
	probe, _ = b.admit(now)
	expect.Equal(t, "a probe then", probe, false)
}

// The address of a destination may be its secret. No error has it.
func TestErrorsHideTheAddress(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{
		"refused":      aPoster(t).post(t.Context(), aDestination(t, "http://127.0.0.1:1/s3cret?token=s3cret", true), aDelivery()),
		"not allowed":  aPoster(t).post(t.Context(), aDestination(t, "https://127.0.0.1/s3cret?token=s3cret", false), aDelivery()),
		"of no answer": silent(t),
	} {
		if a.err == nil || strings.Contains(a.why(), "s3cret") || strings.Contains(a.err.Error(), "s3cret") {
			t.Errorf("%s: %q", name, a.why())
		}
	}
}

// silent posts to a receiver that does not respond in time.
func silent(t *testing.T) answer {
	t.Helper()
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the end
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	return aPoster(t).post(ctx, aDestination(t, url+"/s3cret", true), aDelivery())
}

// A proxy from the environment would choose the address: it is not asked.
func TestNoProxy(t *testing.T) {
	asked := make(chan struct{}, 10)
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { asked <- struct{}{} })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy)
	}
	a := aPoster(t).post(t.Context(), aDestination(t, "https://10.0.0.1/", false), aDelivery())
	if !errors.Is(a.err, errAddress) || len(asked) > 0 {
		t.Errorf("%+v, the proxy was asked %d times", a, len(asked))
	}
}

// Retry-After beyond any number is the longest wait, not none.
func TestLongRetryAfter(t *testing.T) {
	t.Parallel()
	b := backoff.Backoff{First: time.Second, Longest: time.Minute, Spread: true}
	for _, value := range []string{"2147483648", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		after := retryAfter(http.Header{"Retry-After": {value}}, time.Now())
		if wait := judge(b, answer{status: 503, retryAfter: after}, aDelivery(), 0, 72*time.Hour).Wait; wait != longestRetryAfter {
			t.Errorf("%s: %s", value, wait)
		}
	}
}

// Addresses through which a private one, or a cloud's metadata, could be reached are refused, also to a
// destination that may be private.
func TestNeverAllowedAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "192.0.0.192", "100.100.100.200", "168.63.129.16",
		"::", "fe80::1", "fe80::1%eth0", "ff02::1", "fd00:ec2::254", "fd20:ce::254", "::ffff:169.254.169.254", "::ffff:0.0.0.0",
		"64:ff9b::169.254.169.254", "64:ff9b:1::10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "2002:7f00:1::", "2001::1", "100::1", "5f00::1",
	} {
		for _, private := range []bool{false, true} {
			if judgeAddress(netip.MustParseAddr(text), private) == nil {
				t.Errorf("%s is allowed, private %v", text, private)
			}
		}
	}
	for _, text := range []string{"127.0.0.1", "::1", "10.1.2.3", "100.64.0.1", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::10.0.0.1", "fd12::1"} {
		expect.Equal(t, text+" as private", judgeAddress(netip.MustParseAddr(text), true), nil)
		if judgeAddress(netip.MustParseAddr(text), false) == nil {
			t.Errorf("%s is allowed to a public destination", text)
		}
	}
}

// A file with errors tells them without its secrets.
func TestFileErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	const hidden = "whsec_czNjcmV0czNjcmV0czNjcmV0czNjcmV0"
	for _, text := range []string{
		`[{"name": "a", "url": "https://a/s3cret?x=s3cret#s3cret", "secrets": ["` + hidden + `"]}]`,
		`[{"name": "a", "url": "https://u:s3cret@a/", "secrets": ["` + hidden + `"]}]`,
		`[{"name": "a", "url": "https://a/", "secrets": "` + hidden + `"}]`,
		`[{"name": "a", "url": "https://a/", "secrets": [{"` + hidden + `": 1}]}]`,
		`[{"name": "a", "url": "https://a/", "secrets": ["` + hidden + `" "x"]}]`,
		`[{"name": "a", "url": "https://a/", "secrets": ["` + hidden + `!"]}]`,
		`[{"name": "a", "url": "https://a/", "secret": "` + hidden + `"}]`,
	} {
		_, err := ParseDestinations([]byte(text))
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), hidden[6:]) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

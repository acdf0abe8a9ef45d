package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/protocol/deliveries"
	"turnstile/test/expect"
)

const otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

func aDestination(t *testing.T, url string, private bool, secrets ...string) *Destination {
	t.Helper()
	if len(secrets) == 0 {
		secrets = []string{testSecret}
	}
	text, err := json.Marshal([]entry{{Name: "bot", URL: url, Secrets: secrets, Private: private}})
	expect.OK(t, err)
	all, err := ParseDestinations(text)
	expect.OK(t, err)
	return all.Named("bot")
}

func aDelivery() deliveries.Delivery {
	return deliveries.Delivery{ID: "1a2b3c4d-17", Sequence: 17, Attempt: 2, Unsure: true, Body: []byte("{\"type\":\"message.done\",\"x\":\"\\u00e9\u00e9\"}")}
}

func aPoster(t *testing.T) *poster {
	t.Helper()
	p := newPoster(4, nil)
	t.Cleanup(p.close)
	return p
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// A receiver verifies a delivery with the library: by each of two secrets while one is rotated. It
// refuses forged and replayed ones.
func TestSignature(t *testing.T) {
	t.Parallel()
	type received struct {
		header http.Header
		body   []byte
	}
	got := make(chan received, 10)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- received{r.Header, body}
	})
	verify := func(secret string, r received) error {
		w, err := standardwebhooks.NewWebhook(secret)
		expect.OK(t, err)
		return w.Verify(r.body, r.header)
	}
	p := aPoster(t)
	expect.Equal(t, "the status", p.post(t.Context(), aDestination(t, url, true, testSecret, otherSecret), aDelivery()).status, 200)
	r := <-got
	expect.OK(t, verify(testSecret, r))
	expect.OK(t, verify(otherSecret, r))
	expect.Equal(t, "the body", string(r.body), string(aDelivery().Body))
	for name, want := range map[string]string{
		"Content-Type": "application/json", "webhook-id": "1a2b3c4d-17", "Turnstile-Sequence": "17", "Turnstile-Attempt": "2", "Turnstile-Possible-Duplicate": "true",
	} {
		expect.Equal(t, name, r.header.Get(name), want)
	}
	for what, forge := range map[string]func(){
		"another body":     func() { r.body = append(r.body, ' ') },
		"another id":       func() { r.header.Set("webhook-id", "1a2b3c4d-18") },
		"another time":     func() { r.header.Set("webhook-timestamp", fmt.Sprint(time.Now().Unix()+1)) },
		"no signature":     func() { r.header.Del("webhook-signature") },
		"another's secret": func() {},
	} {
		p.post(t.Context(), aDestination(t, url, true), aDelivery())
		r = <-got
		forge()
		secret := testSecret
		if what == "another's secret" {
			secret = otherSecret
		}
		if verify(secret, r) == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	p.clock = func() time.Time { return time.Now().Add(-6 * time.Minute) }
	p.post(t.Context(), aDestination(t, url, true), aDelivery())
	if err := verify(testSecret, <-got); !errors.Is(err, standardwebhooks.ErrMessageTooOld) {
		t.Errorf("a replayed delivery: %v", err)
	}
}

// A redirect is not followed: least of all to a private address.
func TestRedirect(t *testing.T) {
	t.Parallel()
	inside := make(chan struct{}, 1)
	private := serve(t, func(http.ResponseWriter, *http.Request) { inside <- struct{}{} })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, private, http.StatusTemporaryRedirect)
	})
	a := aPoster(t).post(t.Context(), aDestination(t, url, true), aDelivery())
	expect.Equal(t, "the status", a.status, http.StatusTemporaryRedirect)
	expect.Equal(t, "the class", classify(a), failing)
	if len(inside) > 0 {
		t.Error("the redirect was followed")
	}
}

// The address of a name is judged after DNS has resolved it.
func TestNameOfAPrivateAddress(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]"} {
		a := aPoster(t).post(t.Context(), aDestination(t, "https://"+host+":"+port, false), aDelivery())
		if !errors.Is(a.err, errAddress) || a.sent {
			t.Errorf("%s: %+v", host, a)
		}
	}
}

// A receiver that never answers, and one that answers without end, cost no more than the deadline
// or the bound.
func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	t.Run("never answers", func(t *testing.T) {
		t.Parallel()
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		a := aPoster(t).post(ctx, aDestination(t, url, true), aDelivery())
		if a.status != 0 || !a.sent || a.why() != "no answer in time" || failure(a) != "timeout" || !unsure(a) {
			t.Errorf("%+v: %s", a, a.why())
		}
	})
	t.Run("does not listen", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(nil)
		s.Close()
		a := aPoster(t).post(t.Context(), aDestination(t, s.URL, true), aDelivery())
		if a.status != 0 || a.sent || unsure(a) || failure(a) != "network" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("answers 10 MiB", func(t *testing.T) {
		t.Parallel()
		written := make(chan int, 1)
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			n, _ := w.Write([]byte("\x1b[31m" + strings.Repeat("a\n", 5<<20)))
			written <- n
		})
		a := aPoster(t).post(t.Context(), aDestination(t, url, true), aDelivery())
		if a.status != 500 || len(a.why()) > 300 || strings.ContainsAny(a.why(), "\n\x1b") {
			t.Errorf("%q", a.why())
		}
		if n := <-written; n >= 10<<20 {
			t.Errorf("all of the %d bytes were taken", n)
		}
	})
	t.Run("never ends its answer", func(t *testing.T) {
		t.Parallel()
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		began := time.Now()
		a := aPoster(t).post(t.Context(), aDestination(t, url, true), aDelivery())
		if a.status != 200 || time.Since(began) > 10*answerTime {
			t.Errorf("%+v after %s", a, time.Since(began))
		}
	})
	t.Run("answers 101 and holds the connection", func(t *testing.T) {
		t.Parallel()
		url := serve(t, SwitchProtocols(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan answer, 1)
		go func() { got <- aPoster(t).post(ctx, aDestination(t, url, true), aDelivery()) }()
		a := expect.Received(t, "the end of the attempt", got)
		if ctx.Err() != nil || a.status != 0 || !errors.Is(a.err, errSwitched) || classify(a) != failing || !unsure(a) || failure(a) != "network" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("is not given up by the HTTP client", func(t *testing.T) {
		t.Parallel()
		held := make(chan struct{})
		t.Cleanup(func() { close(held) })
		p := aPoster(t)
		p.private.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
			<-held
			return nil, io.EOF
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		got := make(chan answer, 1)
		go func() { got <- p.post(ctx, aDestination(t, "http://127.0.0.1:1", true), aDelivery()) }()
		a := expect.Received(t, "the end of the attempt", got)
		if a.why() != "no answer in time" || !unsure(a) || failure(a) != "timeout" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("answers with 1 MiB of headers", func(t *testing.T) {
		t.Parallel()
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
		a := aPoster(t).post(t.Context(), aDestination(t, url, true), aDelivery())
		if a.status != 0 || !unsure(a) {
			t.Errorf("%+v", a)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"7", "", 7 * time.Second}, {" 7 ", "", 7 * time.Second}, {"-7", "", 0}, {"1.5", "", 0}, {"soon", "", 0},
		{"Sun, 01 Mar 2026 12:00:30 GMT", "", 30 * time.Second},
		{"Sun, 01 Mar 2026 11:00:00 GMT", "", 0},
		{"Sun, 01 Mar 2026 12:00:30 GMT", "Sun, 01 Mar 2026 12:00:20 GMT", 10 * time.Second}, // the receiver's clock
	} {
		h := http.Header{"Retry-After": {c.value}, "Date": {c.date}}
		expect.Equal(t, c.value, retryAfter(h, now), c.want)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// yes: anywhere. own: with private set to true. no: never.
		"93.184.215.14": "yes", "2606:2800:21f:cb07:6820:80da:af6b:8b2c": "yes",
		"127.0.0.1": "own", "127.9.9.9": "own", "10.1.2.3": "own", "172.16.0.1": "own", "172.31.255.255": "own", "192.168.1.1": "own",
		"100.64.0.1": "own", "::1": "own", "fc00::1": "own", "fdff::1": "own",
		"172.32.0.1": "yes", "100.128.0.1": "yes",
		"0.0.0.0": "no", "0.1.2.3": "no", "169.254.169.254": "no", "168.63.129.16": "no", "100.100.100.200": "no", "fd00:ec2::254": "no",
		"224.0.0.1": "no", "239.1.1.1": "no", "240.0.0.1": "no", "255.255.255.255": "no", "192.0.2.1": "no", "198.18.0.1": "no",
		"::": "no", "fe80::1": "no", "fe80::1%eth0": "no", "ff02::1": "no", "2001:db8::1": "no", "2001::1": "no", "2002:7f00:1::": "no", "fec0::1": "no",
		// An address of IPv4 in one of IPv6.
		"::ffff:127.0.0.1": "own", "::ffff:10.0.0.1": "own", "::ffff:169.254.169.254": "no", "::ffff:93.184.215.14": "yes",
		"64:ff9b::7f00:1": "own", "64:ff9b::a9fe:a9fe": "no", "64:ff9b::5db8:d70e": "yes", "64:ff9b:1::1": "no", "::7f00:1": "no",
	} {
		addr := netip.MustParseAddr(text)
		got := "no"
		switch {
		case judgeAddress(addr, false) == nil:
			got = "yes"
		case judgeAddress(addr, true) == nil:
			got = "own"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if got == "yes" && judgeAddress(addr, true) != nil {
			t.Errorf("%s is refused to a private destination", text)
		}
	}
}

package outbox_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"turnstile/internal/outbox"
	"turnstile/test/expect"
)

// switcher is the URL of a receiver that answers 101 and holds every connection.
func switcher(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(outbox.SwitchProtocols(t))
	t.Cleanup(s.Close)
	return s.URL
}

// A receiver that answers 101 and holds the connection keeps no other destination waiting, and neither
// the deliverer's Stop.
func TestReceiverThatSwitchesProtocols(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	all := r.destinations(map[string]string{"bot": v.url, "bad": switcher(t)})
	refused := r.key(2)
	r.answer(refused, "bad", "lost")
	r.due(refused)
	counted := &counts{}
	d := r.deliverer(func(o *outbox.Options) {
		o.Destinations, o.Observer = func() *outbox.Destinations { return all }, counted
	})
	expect.Soon(t, "three attempts", func() bool { return counted.failed.Load() >= 3 })
	for _, message := range []string{"one", "two"} {
		r.answer(r.key(1), "bot", message)
		expect.Equal(t, "delivered beside it", v.next().message, message)
	}
	stopped := make(chan bool, 1)
	go func() {
		d.Stop(context.Background())
		stopped <- true
	}()
	expect.Received(t, "the end of Stop", stopped)
	expect.Equal(t, "it is not lost", r.stored(refused), 1)
}

// Ping returns the error of such a receiver, and does not wait for it.
func TestPing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ok := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(ok.Close)
	all := r.destinations(map[string]string{"bad": switcher(t), "ok": ok.URL})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := outbox.Ping(ctx, all.Named("bad"))
	if err == nil || !strings.Contains(err.Error(), "101") || status != 0 || ctx.Err() != nil {
		t.Errorf("%d, %v", status, err)
	}
	status, err = outbox.Ping(ctx, all.Named("ok"))
	expect.OK(t, err)
	expect.Equal(t, "status", status, http.StatusOK)
}

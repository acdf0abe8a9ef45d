package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// rig is a database with a sender and a worker. The agent replies at once.
type rig struct {
	*actors.Bench
	ctx context.Context
	rdb redis.UniversalClient
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return rigOn(t, redistest.New(t))
}

func rigOn(t *testing.T, rdb redis.UniversalClient) *rig {
	t.Helper()
	return &rig{Bench: actors.BenchOn(t, rdb), ctx: t.Context(), rdb: rdb}
}

// key is the n-th session of the test. All databases of a server share the notices.
func (r *rig) key(n int) string {
	return strings.NewReplacer("/", ":", "#", "-").Replace(r.Name()) + ":" + strconv.Itoa(n)
}

// answer sends messages with a destination, and answers them.
func (r *rig) answer(key, to string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		_, err := r.Client.Session(key).Send(r.ctx, turnstile.Message{ID: id, Text: "hello", ReplyTo: to, ReplyContext: json.RawMessage(`{"chat":7}`)})
		expect.OK(r, err)
	}
	for {
		claims, err := r.Worker.Claim(r.ctx, []string{key})
		expect.OK(r, err)
		if len(claims) == 0 {
			return
		}
		for more := true; more; {
			more = r.Finish(claims[0])
		}
	}
}

// stored is how many records a session has that are neither delivered nor dead letters.
func (r *rig) stored(key string) int64 {
	r.Helper()
	n, err := r.rdb.ZCard(r.ctx, rediskey.For(key).Outbox()).Result()
	expect.OK(r, err)
	return n
}

// dead are the reasons of a session's dead letters.
func (r *rig) dead(key string) (why []string) {
	r.Helper()
	members, err := r.rdb.ZRange(r.ctx, rediskey.For(key).Undelivered(), 0, -1).Result()
	expect.OK(r, err)
	for _, m := range members {
		_, sequence, _ := strings.Cut(m, " ")
		why = append(why, r.rdb.HGet(r.ctx, rediskey.For(key).Deliveries(), "why "+sequence).Val())
	}
	return why
}

// due puts a session into the index, as the sweep does with those that have records.
func (r *rig) due(key string) {
	r.Helper()
	expect.OK(r, deliveries.IndexOutbox(r.ctx, r.rdb, time.Now().UnixMilli(), key))
}

// got is one POST as the receiver has got it.
type got struct {
	id, session, message string
	sequence             int64
	attempt              int
	duplicate            bool
	body                 string
	at                   time.Time
}

// receiver is a destination. It fails the test if a delivery is not signed.
type receiver struct {
	*rig
	url     string
	answers func(got) int // the status; nil: 200
	header  http.Header   // of each answer

	mu    sync.Mutex
	posts []got
	came  chan got
}

func (r *rig) receiver(answers func(got) int) *receiver {
	r.Helper()
	v := &receiver{rig: r, answers: answers, came: make(chan got, 10_000), header: http.Header{}}
	s := httptest.NewServer(v)
	r.Cleanup(s.Close)
	v.url = s.URL
	return v
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the deliverer has died
	}
	hook, err := standardwebhooks.NewWebhook(secret)
	if err == nil {
		err = hook.Verify(body, req.Header)
	}
	var told struct {
		Data struct {
			Session  string
			Messages []string
			Context  struct{ Chat int }
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &told)
	}
	if err != nil || told.Data.Context.Chat != 7 {
		v.Errorf("%s: %v", body, err)
	}
	sequence, _ := strconv.ParseInt(req.Header.Get("Turnstile-Sequence"), 10, 64)
	attempt, _ := strconv.Atoi(req.Header.Get("Turnstile-Attempt"))
	g := got{
		req.Header.Get("webhook-id"), told.Data.Session, strings.Join(told.Data.Messages, "+"), sequence, attempt,
		req.Header.Get("Turnstile-Possible-Duplicate") == "true", string(body), time.Now(),
	}
	v.mu.Lock()
	v.posts = append(v.posts, g)
	v.mu.Unlock()
	for name, values := range v.header {
		w.Header()[name] = values
	}
	if v.answers != nil {
		w.WriteHeader(v.answers(g))
	}
	v.came <- g
}

// next waits for the next POST.
func (v *receiver) next() got {
	v.Helper()
	return expect.Received(v.T, "a delivery", v.came)
}

// messages waits for n POSTs and returns their messages.
func (v *receiver) messages(n int) (ids []string) {
	v.Helper()
	for range n {
		ids = append(ids, v.next().message)
	}
	return ids
}

// nothing checks that no further POST came.
func (v *receiver) nothing(why string) {
	v.Helper()
	if len(v.came) > 0 {
		g := <-v.came
		v.Errorf("%s: %s was delivered", why, g.message)
	}
}

// destinations are those of a file with these receivers.
func (r *rig) destinations(urls map[string]string, more ...string) *outbox.Destinations {
	r.Helper()
	var entries []string
	for name, url := range urls {
		entries = append(entries, fmt.Sprintf(`{"name": %q, "url": %q, "secrets": [%q], "private": true%s}`, name, url, secret, strings.Join(more, "")))
	}
	all, err := outbox.ParseDestinations([]byte("[" + strings.Join(entries, ",") + "]"))
	expect.OK(r, err)
	return all
}

// deliverer starts a deliverer that delivers to one receiver, as the destination bot.
func (v *receiver) deliverer(changes ...func(*outbox.Options)) *outbox.Deliverer {
	v.Helper()
	all := v.destinations(map[string]string{"bot": v.url})
	return v.rig.deliverer(append([]func(*outbox.Options){func(o *outbox.Options) {
		o.Destinations = func() *outbox.Destinations { return all }
	}}, changes...)...)
}

func (r *rig) deliverer(changes ...func(*outbox.Options)) *outbox.Deliverer {
	r.Helper()
	o := outbox.Options{
		Timeout: 5 * time.Second, Poll: 5 * time.Millisecond, RetryBackoff: 2 * time.Millisecond, LongestBackoff: 10 * time.Millisecond,
		BreakerPause: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}
	if testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(r.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for _, c := range changes {
		c(&o)
	}
	d, err := outbox.New(r.rdb, o)
	expect.OK(r, err)
	d.Start(r.ctx)
	r.Cleanup(func() { d.Stop(ended()) })
	return d
}

// ended returns a cancelled context.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
)

// sleeper is a server that does not respond until it is awake.
type sleeper struct {
	*httptest.Server
	asked chan struct{} // has an element for each request until it is full
	count atomic.Int64
	awake atomic.Bool
}

func newSleeper(t *testing.T) *sleeper {
	alive := mcpserver.NewHTTP(t)
	s := &sleeper{asked: make(chan struct{}, 1)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count.Add(1)
		if s.awake.Load() {
			alive.Config.Handler.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // else the context does not end with the connection
		select {
		case s.asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s
}

// A turn that is interrupted while it waits for a server says nothing of the server.
func TestInterruptedStartKeepsThePause(t *testing.T) {
	t.Parallel()
	dead := newSleeper(t)
	set := open(t, Config{Start: 200 * time.Millisecond}, write(t, object{"a": object{"url": dead.URL}}))
	one := set.servers[0]
	begin(t, set)
	<-dead.asked
	one.later = time.Now()
	before := one.later
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		<-dead.asked
		interrupt()
	}()
	set.all.config.Start = expect.Patience
	_, missing := set.Begin(ctx, &agent.Turn{Session: t.Name()})
	expect.Equal(t, "interrupted", fmt.Sprint(missing), "map[a:context canceled]")
	expect.Equal(t, "the pause", one.later, before)
	set.all.config.Start = 200 * time.Millisecond
	begin(t, set)
	expect.Equal(t, "requests", dead.count.Load(), 3)
	if pause := time.Until(one.later); pause < pauses.After(2)-pauses.First/2 {
		t.Errorf("after two slow starts the pause is %s", pause)
	}
}

// A call that reaches a server in its pause ends the pause.
func TestCallEndsThePause(t *testing.T) {
	t.Parallel()
	server := newSleeper(t)
	server.awake.Store(true)
	set := open(t, Config{}, write(t, object{"a": object{"url": server.URL}}))
	tools, _ := begin(t, set)
	set.servers[0].end(false)
	server.awake.Store(false)
	set.all.config.Start = 200 * time.Millisecond
	_, missing := begin(t, set)
	expect.Equal(t, "missing", len(missing), 1)
	set.all.config.Start = expect.Patience
	server.awake.Store(true)
	expect.Equal(t, "it is back", tools["mcp__a__echo"].call(t, "x"), "x")
	set.servers[0].end(false)
	before := server.count.Load()
	_, missing = begin(t, set)
	expect.Equal(t, "missing", fmt.Sprint(missing), "map[]")
	if server.count.Load() == before {
		t.Error("it was not asked")
	}
	expect.Equal(t, "slow starts", set.servers[0].slow, 0)
}

// A server whose start took too long costs the next turns no time, until a pause is over that grows.
func TestDeadServerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dead := newSleeper(t)
	set := open(t, Config{Start: 200 * time.Millisecond}, write(t, object{"a": object{"url": dead.URL}}))
	one := set.servers[0]
	for n := 1; n <= 2; n++ {
		_, missing := begin(t, set)
		expect.Equal(t, "it is waited for", fmt.Sprint(missing), "map[a:it did not start in time]")
		if pause := time.Until(one.later); pause > pauses.After(n) || pause < pauses.After(n)-pauses.First/2 {
			t.Errorf("after %d starts the pause is %s", n, pause)
		}
		before := dead.count.Load()
		_, missing = begin(t, set)
		if got := fmt.Sprint(missing["a"]); !strings.HasPrefix(got, "it did not start in time: it is started again in ") || dead.count.Load() != before {
			t.Errorf("in the pause: %s, %d requests", got, dead.count.Load()-before)
		}
		one.later = time.Now()
	}
	set.all.config.Start = expect.Patience
	dead.awake.Store(true)
	tools, missing := begin(t, set)
	expect.Equal(t, "missing", len(missing), 0)
	expect.Equal(t, "it is back", tools["mcp__a__echo"].call(t, "x"), "x")
	expect.Equal(t, "slow starts", one.slow, 0)
}

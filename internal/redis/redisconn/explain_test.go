package redisconn

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func TestExplainNetwork(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	wantError(t, "redis://"+addr, "Redis at "+addr+" refuses the connection")
	wantError(t, "redis-cluster://"+addr, "refuses the connection")
	wantError(t, "redis-sentinel://"+addr+"?master=m", "no Redis Sentinel responds")
	wantError(t, "redis://no-such-host.invalid", "no-such-host.invalid is not found")
}

func TestExplainSilentServer(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	client := open(t, s.URL())
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if text := Explain(client.Ping(ctx).Err()); !strings.Contains(text, "does not respond in time") {
		t.Error(text)
	}
}

// A name server that does not respond is named before a caller's time is over, and Redis is not blamed.
func TestExplainSilentNameServer(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", silent.LocalAddr().String())
	}}
	for url, says := range map[string]string{
		"redis://redis.example":                   "not resolved in time",
		"redis-cluster://redis.example":           "not resolved in time",
		"redis-sentinel://redis.example?master=m": "the name server did not respond in time",
	} {
		client := open(t, url, func(o *redis.UniversalOptions) {
			o.Dialer = resolving((&net.Dialer{Resolver: resolver, Timeout: 50 * time.Millisecond}).DialContext)
		})
		err := client.Ping(t.Context()).Err()
		if !errors.Is(err, errUnresolved) || !strings.Contains(Explain(err), says) || !MayPass(err) || !Unchanged(err) {
			t.Errorf("%s: %v, may pass %v, unchanged %v: %s", url, err, MayPass(err), Unchanged(err), Explain(err))
		}
	}
	broken := Explain(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "redis.example", Err: "server misbehaving", IsTemporary: true}})
	if !strings.Contains(broken, "redis.example cannot be resolved") {
		t.Error(broken)
	}
}

func TestExplainFullServer(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	client := open(t, s.URL())
	plain := client.Set(t.Context(), "k", "v", 0).Err()
	script := redis.NewScript("return redis.call('SET', KEYS[1], 'v')").Run(t.Context(), client, []string{"k"}).Err()
	for _, err := range []error{plain, script, errors.New("asynq: " + plain.Error())} {
		if text := Explain(err); !strings.Contains(text, "out of memory") {
			t.Errorf("%v is explained as %q", err, text)
		}
	}
}

func TestExplainText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"LOADING Redis is loading the dataset in memory": "still loading",
		"MISCONF Redis is configured to save RDB":        "to disk",
		"CLUSTERDOWN The cluster is down":                "slots have no master",
		"ERR max number of clients reached":              "maxclients",
		"something\nelse":                                "something else",
	} {
		if got := Explain(errors.New(in)); !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q is explained as %q", in, got)
		}
	}
	if got := Explain(nil); got != "" {
		t.Errorf("no error is explained as %q", got)
	}
	if got := Explain(context.Canceled); got != context.Canceled.Error() {
		t.Errorf("a cancelled context is explained as %q", got)
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for level, lines := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		out.Reset()
		slogger{slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))}.
			Printf(t.Context(), "dial %s\nfailed", "x")
		if got := strings.Count(out.String(), "\n"); got != lines {
			t.Errorf("level %v: %q", level, out.String())
		}
	}
}

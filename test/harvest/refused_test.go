package harvest

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/devredis"
	"turnstile/test/actors"
)

// serve starts a redis-server for the test and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server, err := devredis.Launch(t.Context(), dir, addr.Port, nil, devredis.Args(dir, addr.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return addr.String()
}

// A message is found in every place where Redis may have it.
func TestStored(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: serve(t)})
	defer rdb.Close()
	client := turnstile.NewClient(rdb)
	for id, option := range map[string]actors.Option{
		"waits": actors.ReplyTo(wire.Route{To: "hook"}), "delayed": actors.Delay(time.Hour),
	} {
		if _, err := client.Session("s").Send(t.Context(), actors.With(turnstile.Message{ID: id, Text: "x"}, option)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string][]string{
		"waits": {"idem", "owed", "pending", "task"}, "delayed": {"idem", "scheduled", "task"}, "refused": nil,
	} {
		if got, err := stored(t.Context(), rdb, "s", id); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is in %q, %v, want %q", id, got, err, want)
		}
	}
}

package maintenance_test

import (
	"testing"

	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A Redis that responds may store nothing. Then a worker lives without a heartbeat, and nobody says that none is running.
func TestPingOfARedisThatRefusesWrites(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*redistest.Server) error{
		"memory": func(s *redistest.Server) error { return s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err() },
		"disk": func(s *redistest.Server) error {
			s.RefuseWrites()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			b := actors.BenchOn(t, server.Client())
			expect.OK(t, maintenance.Ping(b.Ctx, b.Redis))
			expect.Soon(t, "no key that it leaves", func() bool { return b.Redis.Exists(b.Ctx, rediskey.For(" ").State()).Val() == 0 })
			expect.OK(t, refuse(server))
			if err := maintenance.Ping(b.Ctx, b.Redis); !redisconn.RefusesWrites(err) {
				t.Errorf("Ping returned %v", err)
			}
			if has, err := b.Client.HasWorker(b.Ctx); has || !redisconn.RefusesWrites(err) {
				t.Errorf("HasWorker returned %v, %v", has, err)
			}
		})
	}
}

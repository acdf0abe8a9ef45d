package redistest

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

var announce sync.Once

// startEmbedded starts an embedded server for t. A ticker expires its keys, which that server does
// not do by itself.
func startEmbedded(t testing.TB) (*database, error) {
	t.Helper()
	announce.Do(func() {
		fmt.Fprintln(os.Stderr, "redistest: NO redis-server ON PATH AND NO REDIS_URL: tests run on the embedded server; "+
			"SKIPPED is every test of persistence, memory limits, Redis Cluster, failover and worker processes that needs a real one")
	})
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				server.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	db := &database{
		url:    "redis://" + server.Addr() + "/0",
		client: redis.NewClient(&redis.Options{Addr: server.Addr()}),
	}
	t.Cleanup(func() {
		_ = db.client.Close()
		close(stop)
		<-stopped
		server.Close()
	})
	return db, nil
}

// withDatabase is rawURL with another database number.
func withDatabase(rawURL string, options *redis.Options, n int) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	if options.Network == "unix" {
		query := u.Query()
		query.Set("db", strconv.Itoa(n))
		u.RawQuery = query.Encode()
		return u.String()
	}
	query := u.Query()
	query.Del("db")
	u.RawQuery = query.Encode()
	u.Path = "/" + strconv.Itoa(n)
	return u.String()
}

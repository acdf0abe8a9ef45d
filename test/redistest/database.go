// Package redistest gives tests a real Redis.
//
//	client := redistest.New(t)   // the test's empty database
//	url := redistest.URL(t)      // the same database, for a child process
//
// The databases are on one redis-server per test binary. The first test that needs it starts it,
// and it dies with the binary, even when that is killed. With REDIS_URL set they are on that server
// instead: the test takes an empty database and deletes its keys afterwards; nothing is ever
// flushed there. Without a redis-server on PATH each test gets an embedded server, with a warning,
// and tests that call Real are skipped. With CI=true a missing redis-server is a failure.
//
// Tests that run at once share state that is not per database: channels of PUBLISH, INFO, CONFIG, SCRIPT
// FLUSH, the memory limit. A test of those starts its own server with StartServer.
package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const databases = 4096

// database is the database of one test.
type database struct {
	url    string
	client *redis.Client
}

var given = struct {
	sync.Mutex
	byTest map[testing.TB]*database
}{byTest: map[testing.TB]*database{}}

// New returns a client of an empty database that belongs only to t. Further calls with the same t
// return the same client. When t ends, the client is closed and the database emptied.
func New(t testing.TB) redis.UniversalClient {
	t.Helper()
	return databaseOf(t).client
}

// URL returns the redis:// URL of the database that New gives t.
func URL(t testing.TB) string {
	t.Helper()
	return databaseOf(t).url
}

// Real skips t, with the reason, if there is only the embedded server. With CI=true it fails t
// instead.
func Real(t testing.TB) {
	t.Helper()
	if os.Getenv("REDIS_URL") == "" {
		haveOrSkip(t)
	}
}

// needBinary is Real for tests that start servers themselves, which -short leaves out.
func needBinary(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("redistest: starts servers, so it runs without -short, in make test")
	}
	haveOrSkip(t)
}

func haveOrSkip(t testing.TB) {
	t.Helper()
	skipUnless(t, haveBinary(), "redistest: needs a real redis-server, and none is on PATH")
}

// skipUnless skips a test loudly unless this machine has what it needs. In CI it fails.
func skipUnless(t testing.TB, has bool, reason string) {
	t.Helper()
	if has {
		return
	}
	if inCI() {
		t.Fatal(reason)
	}
	fmt.Fprintf(os.Stderr, "%s: SKIPPED %s\n", reason, t.Name())
	t.Skip(reason)
}

func databaseOf(t testing.TB) *database {
	t.Helper()
	given.Lock()
	db := given.byTest[t]
	given.Unlock()
	if db != nil {
		return db
	}
	// This is t's goroutine, so there is no other call for t at the same time.
	var err error
	switch {
	case os.Getenv("REDIS_URL") != "":
		db, err = takeExternal(t, os.Getenv("REDIS_URL"))
	case haveBinary():
		db, err = takeShared(t)
	case inCI():
		t.Fatal("redistest: no redis-server on PATH and no REDIS_URL; CI must not fall back to the embedded server")
	default:
		db, err = startEmbedded(t)
	}
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	given.Lock()
	given.byTest[t] = db
	given.Unlock()
	t.Cleanup(func() {
		given.Lock()
		delete(given.byTest, t)
		given.Unlock()
	})
	return db
}

func haveBinary() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

func inCI() bool {
	on, _ := strconv.ParseBool(os.Getenv("CI"))
	return on
}

// shared is the test binary's one server. Its watchdog ends it.
var shared = struct {
	sync.Mutex
	server *Server
	free   []int
	err    error
}{}

// takeShared gives t the database that was free for the longest time, so that a late write of an
// earlier test rarely meets a later one.
func takeShared(t testing.TB) (*database, error) {
	t.Helper()
	shared.Lock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = newServer(nil, []string{"--databases", strconv.Itoa(databases)})
		for n := range databases {
			shared.free = append(shared.free, n)
		}
	}
	server, err := shared.server, shared.err
	shared.Unlock()
	if err != nil {
		return nil, err
	}
	for {
		shared.Lock()
		if len(shared.free) == 0 {
			shared.Unlock()
			return nil, fmt.Errorf("more than %d databases in use", databases)
		}
		n := shared.free[0]
		shared.free = shared.free[1:]
		shared.Unlock()

		db := &database{
			url:    fmt.Sprintf("redis://%s/%d", server.Addr(), n),
			client: redis.NewClient(&redis.Options{Addr: server.Addr(), DB: n}),
		}
		size, err := db.client.DBSize(context.Background()).Result()
		if err != nil {
			_ = db.client.Close()
			return nil, fmt.Errorf("the test binary's redis-server at %s: %w", server.Addr(), err)
		}
		if size > 0 {
			// A late write came after its test's end: the database is not used again.
			_ = db.client.Close()
			continue
		}
		t.Cleanup(func() {
			// The server is the test binary's own, so it may be flushed.
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			err := withoutHooks(db, func(c *redis.Client) error { return c.FlushDB(ctx).Err() })
			_ = db.client.Close()
			if err != nil {
				return
			}
			shared.Lock()
			shared.free = append(shared.free, n)
			shared.Unlock()
		})
		return db, nil
	}
}

// withoutHooks runs f on a new client, because the test may have closed its client or added faults
// to it.
func withoutHooks(db *database, f func(*redis.Client) error) error {
	options := *db.client.Options()
	client := redis.NewClient(&redis.Options{
		Network: options.Network, Addr: options.Addr, DB: options.DB, TLSConfig: options.TLSConfig,
		Username: options.Username, Password: options.Password, PoolSize: 1,
	})
	defer client.Close()
	return f(client)
}

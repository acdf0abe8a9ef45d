package simulate

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
)

// server is the embedded Redis with the links of all processes to it. Its clock is the bubble's.
type server struct {
	redis *miniredis.Miniredis
	seed  uint64

	mu    sync.Mutex
	links []*link
	down  bool
}

func startServer(seed uint64) (*server, error) {
	m := miniredis.NewMiniRedis()
	m.Seed(int(seed & 0xffff))
	m.ClockTTL(true)
	first, err := m.Dial() // starts it without a listener
	if err != nil {
		return nil, err
	}
	return &server{redis: m, seed: seed}, first.Close()
}

// link returns a new process's way to the server.
func (s *server) link(process string) *link {
	l := newLink(s.seed, process, s.redis.Server().ServeConn)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.down = s.down
	s.links = append(s.links, l)
	return l
}

// unlink forgets the link of an ended process.
func (s *server) unlink(gone *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = slices.DeleteFunc(s.links, func(l *link) bool { return l == gone })
}

// each calls f for the link of every living process.
func (s *server) each(f func(*link)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		f(l)
	}
}

// stop closes all connections and refuses new ones until start. Data stay, as with appendfsync always.
func (s *server) stop() {
	s.setDown(true)
	s.each(func(l *link) { l.cut(false) })
}

func (s *server) start() { s.setDown(false) }

func (s *server) setDown(down bool) {
	s.mu.Lock()
	s.down = down
	s.mu.Unlock()
	s.each(func(l *link) { l.setDown(down) })
}

// flushScripts empties the script cache.
func (s *server) flushScripts(ctx context.Context) {
	rdb := open(newLink(s.seed, "flush", s.redis.Server().ServeConn))
	defer func() { _ = rdb.Close() }()
	_ = rdb.ScriptFlush(ctx).Err()
}

// open returns a client with the settings of production that dials by the link.
func open(l *link) redis.UniversalClient {
	rdb, err := redisconn.Open("redis://memory:6379/0", func(o *redis.UniversalOptions) {
		o.PoolSize = 40
		o.Dialer = func(context.Context, string, string) (net.Conn, error) { return l.dial() }
	})
	if err != nil {
		panic(err)
	}
	return rdb
}

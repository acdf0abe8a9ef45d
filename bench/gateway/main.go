// Command gateway measures the HTTP API: how long a message takes from its POST to the agent's start,
// how many POSTs a gateway takes compared with Client.Send, the cost of ten thousand idle streams,
// how soon an event reaches one of them, and how long the board's first page takes with 100,000
// sessions. It starts a redis-server, and the gateway in a separate process.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/internal/http/board"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/pkg/admin"
)

var (
	samples = flag.Int("samples", 2000, "samples of each latency")
	streams = flag.Int("streams", 10_000, "idle streams")
	posts   = flag.Int("posts", 4000, "messages of each round of POSTs, and of Sends")
	rounds  = flag.Int("rounds", 25, "rounds of POSTs and of Sends, in turn")
	only    = flag.String("only", "", "a part to measure alone: starts, posts, streams or board")

	sessions = flag.Int("sessions", 100_000, "sessions on the board")
)

// gatewayConnections is how many connections to Redis the gateway has for commands, as cmd/gateway.
const gatewayConnections = 16

func main() {
	if lab.RunJob("gateway", serve) {
		return
	}
	lab.Main("gateway", run)
}

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	for _, part := range []struct {
		name    string
		measure func(context.Context, *lab.Server, *lab.Report) error
	}{{"starts", measureStarts}, {"posts", measurePosts}, {"streams", measureStreams}, {"board", measureBoard}} {
		if *only != "" && *only != part.name {
			continue
		}
		if err := srv.Clear(ctx); err != nil {
			return err
		}
		if err := part.measure(ctx, srv, report); err != nil {
			return err
		}
	}
	return nil
}

// job is the child's: the gateway of this Redis.
type job struct{ Redis string }

// usage is the memory and the processor time of the child's process.
type usage struct {
	Resident   int // bytes
	Goroutines int
	CPU        time.Duration
}

// serve is the child: a gateway without tokens, as cmd/gateway has it.
func serve(j job, ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: j.Redis, PoolSize: gatewayConnections, ClientName: "gateway"})
	defer rdb.Close()
	client, operator := turnstile.NewClient(rdb), admin.NewClient(rdb)
	g := gateway.New(gateway.Config{}, gateway.Deps{Client: client, Admin: operator, Store: store.New(rdb)})
	g.Mount("/board/", board.New(g, board.Deps{Client: client, Admin: operator}))
	var listen net.ListenConfig
	socket, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: g}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(socket) }()
	if err := lab.Say(socket.Addr().String()); err != nil {
		return err
	}
	err = lab.Obey(func(word string) any {
		if word == "memory" {
			debug.FreeOSMemory()
		}
		cpu, _ := lab.ProcessorTime() // it always succeeds
		return usage{resident(), runtime.NumGoroutine(), cpu}
	})
	g.Drain()
	_ = server.Close()
	<-failed
	return err
}

// resident returns the bytes of this process that are in memory.
func resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // not Linux: the report says 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize()
}

// start starts the gateway, and returns its address.
func start(ctx context.Context, srv *lab.Server) (child *lab.Child, addr string, err error) {
	if child, err = lab.Spawn(ctx, job{srv.Addr()}); err != nil {
		return nil, "", err
	}
	if err := child.Read(&addr); err != nil {
		child.End()
		return nil, "", fmt.Errorf("start the gateway: %w", err)
	}
	return child, addr, nil
}

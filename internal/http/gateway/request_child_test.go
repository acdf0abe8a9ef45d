package gateway_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
)

// requestChildVariable makes the test binary a gateway; its value is a requestJob.
const requestChildVariable = "TURNSTILE_TEST_REQUEST_CHILD"

// requestJob configures a gateway that is killed at a step.
type requestJob struct {
	URL    string // of Redis
	Step   string // empty: it is not killed
	Before bool
}

// run serves until the parent closes its end, and then prints the steps.
func (j requestJob) run() error {
	rdb, err := redisconn.Open(j.URL)
	if err != nil {
		return err
	}
	s := &steps{at: j.Step, before: j.Before, strike: func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the process is about to die
	}}
	rdb.AddHook(s)
	g := gateway.New(gateway.Config{}, gateway.Deps{
		Client: turnstile.NewClient(rdb), Admin: admin.NewClient(rdb), Store: store.New(rdb), Logger: slog.New(slog.DiscardHandler),
	})
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(socket, s.serve(g)) }() //nolint:gosec // it ends with the process
	fmt.Println("http://" + socket.Addr().String())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	fmt.Println(strings.Join(s.names(), ","))
	return nil
}

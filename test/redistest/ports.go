package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// The ports are below the range that systems use for outgoing connections, and so are the cluster's
// bus ports, which are 10,000 higher.
const (
	firstPort = 11000
	lastPort  = 21999
	busOffset = 10000
)

var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// FreeAddr returns an address on this machine that nobody listens on. Unlike a port that the kernel chooses, no outgoing connection
// takes its port before it is used.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return loopback(port)
}

// freePort returns a port that no process listens on and that it has not returned before. Its bus
// port is free, too.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 2000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if ports.given[port] || !bindable(port) || !bindable(port+busOffset) {
			continue
		}
		ports.given[port] = true
		return port, nil
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

package config

import (
	"net/netip"
	"strings"
	"testing"
)

// Only addresses that other machines cannot reach are Loopback: a gateway without tokens may listen
// there.
func FuzzLoopback(f *testing.F) {
	for _, addr := range []string{"127.0.0.1:80", "localhost:0", "[::1]:8080", "[::ffff:127.0.0.1]:1", ":80", "0.0.0.0:1", "[::1%lo]:1", "127.1:80", "LOCALHOST:1", "localhost:+1", "x:65536"} {
		f.Add(addr)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		loopback, err := Loopback(addr)
		if err != nil || !loopback {
			return
		}
		host := addr[:strings.LastIndexByte(addr, ':')]
		if host == "localhost" {
			return
		}
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil || !ip.Unmap().IsLoopback() {
			t.Errorf("%q counts as loopback: %v", addr, err)
		}
	})
}

package config

import (
	"errors"
	"testing"
)

func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:8080":        true,
		"127.9.9.9:1":           true,
		"[::1]:8080":            true,
		"[::ffff:127.0.0.1]:80": true,
		"localhost:0":           true,
		":8080":                 false,
		"0.0.0.0:8080":          false,
		"[::]:8080":             false,
		"192.0.2.1:8080":        false,
		"localhost.example:80":  false,
		"127.0.0.1.example:80":  false,
	} {
		if got, err := Loopback(addr); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", addr, got, err, want)
		}
	}
	for _, addr := range []string{"", "8080", "127.0.0.1", "::1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:65536"} {
		if _, err := Loopback(addr); !errors.Is(err, ErrBadAddress) {
			t.Errorf("%q: %v, want ErrBadAddress", addr, err)
		}
	}
}

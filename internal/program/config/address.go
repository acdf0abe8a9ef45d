package config

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
)

// ErrBadAddress is returned for an address that is not HOST:PORT.
var ErrBadAddress = errors.New("it is not HOST:PORT, such as 127.0.0.1:8080")

// Loopback reports whether only this machine can reach a listener on addr, written HOST:PORT. An
// empty host means all addresses. Host names other than localhost count as reachable from
// elsewhere, because their addresses may change.
func Loopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, ErrBadAddress
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return false, ErrBadAddress
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback(), nil
}

//go:build !linux

package gateway

import "net"

// boundVanished does nothing: the system decides how long it waits for a client that has vanished.
func boundVanished(net.Conn) {}

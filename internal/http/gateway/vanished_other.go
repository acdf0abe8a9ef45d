//go:build !linux

package gateway

import "net"

// boundVanished does nothing: the system decides how long it waits for a vanished client.
func boundVanished(net.Conn) {}

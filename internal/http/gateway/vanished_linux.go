package gateway

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundVanished has the system end the connection of a client that vanished silently, as a phone
// does: it acknowledged nothing for vanishedAfter. By default Linux retries for 15 minutes, during
// which the stream counts as its token's.
func boundVanished(conn net.Conn) {
	tls, ok := conn.(interface{ NetConn() net.Conn })
	if ok {
		conn = tls.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // the connection ended
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(vanishedAfter.Milliseconds()))
	})
}

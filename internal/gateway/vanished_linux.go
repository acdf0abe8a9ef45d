package gateway

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundVanished ends a connection whose client has vanished without a word, as a phone does: nothing
// that was sent was acknowledged for vanishedAfter. Linux alone would try again for 15 minutes, and
// the stream would count as its token's.
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
		return // it has ended
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(vanishedAfter.Milliseconds()))
	})
}

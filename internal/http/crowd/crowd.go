// Package crowd refuses clients before they take the file descriptors that a process needs for Redis, agents' programs
// and files.
package crowd

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

// reserve is how many of the process's file descriptors clients must leave, or half of them if that is less: one
// half for connections that get a refusal, the other for Redis, agents' programs and files.
const reserve = 256

type key struct{}

// Mark marks a connection that is one too many, or closes it if even those are too many. The system gives a
// connection the lowest free number, so all lower ones are taken. It is for http.Server.ConnContext.
func Mark(ctx context.Context, conn net.Conn) context.Context {
	var files syscall.Rlimit
	tcp, ok := conn.(syscall.Conn)
	if !ok || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return ctx
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return ctx // the connection ended
	}
	var number uint64
	_ = raw.Control(func(fd uintptr) { number = uint64(fd) })
	kept := min(reserve, files.Cur/2)
	if number >= files.Cur-kept/2 {
		_ = conn.Close()
	}
	return context.WithValue(ctx, key{}, number >= files.Cur-kept)
}

// TooMany reports whether a request's connection is one too many. Refuse the request, and close the connection.
func TooMany(r *http.Request) bool {
	over, _ := r.Context().Value(key{}).(bool)
	return over
}

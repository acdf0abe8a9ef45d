//go:build linux

package sameuser

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"turnstile/test/program"
	"turnstile/test/unprivileged"
)

// An enqueue that runs next to agents, for example with `docker exec`, hides its environment, which
// has a password.
func TestEnqueueIsConcealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(filepath.Dir(workerPath), "enqueue")
	if err := unprivileged.Install(path, program.Build(t, "turnstile/cmd/enqueue"), 0o755); err != nil {
		t.Fatal(err)
	}
	redis, err := net.Listen("tcp", "127.0.0.1:0") // it does not respond
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	u := newUser(t)
	enqueue := u.Command(path, "-s", "s", "hello")
	enqueue.Env = append(enqueue.Env, "REDIS_URL=redis://:secret@"+redis.Addr().String()+"/0")
	if err := enqueue.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = enqueue.Process.Kill()
		_ = enqueue.Wait()
	}()
	conn, err := redis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	out, err := u.Command(agentPath, "role=peek", strconv.Itoa(enqueue.Process.Pid)).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("%v, and it was found:\n%s", err, out)
	}
}

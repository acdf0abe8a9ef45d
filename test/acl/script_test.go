package acl_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// docs/redis-users.sh ends with users that work and are kept, an administrator among them, and without
// the default one. It can be run again.
func TestScriptOfUsers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users.acl")
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	server := redistest.StartServer(t, "--aclfile", file)
	host, port, _ := strings.Cut(server.Addr(), ":")
	script := func(worker string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "../../docs/redis-users.sh", "-h", host, "-p", port)
		cmd.Env = append(os.Environ(), "ADMIN_PASSWORD=an admin's $word", "WORKER_PASSWORD="+worker, "GATEWAY_PASSWORD=g")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	login := func(user, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: user, Password: password})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for _, worker := range []string{"one", "another"} {
		out, err := script(worker)
		if err != nil || out != "redis-users: set and kept: turnstile-admin turnstile-worker turnstile-gateway; default is off\n" {
			t.Fatalf("%v: %s", err, out)
		}
		expect.OK(t, login("turnstile-admin", "an admin's $word").ACLLog(t.Context(), 1).Err())
		expect.OK(t, login("turnstile-worker", worker).Ping(t.Context()).Err())
		expect.Equal(t, "the default user is let in", login("", "").Ping(t.Context()).Err() == nil, false)
		warnings, err := redisconn.Check(t.Context(), login("turnstile-gateway", "g"))
		expect.OK(t, err)
		for _, w := range warnings {
			if strings.Contains(w, "INFO") {
				t.Error(w)
			}
		}
	}
	kept, err := os.ReadFile(file)
	expect.OK(t, err)
	for _, line := range []string{"user default off ", "user turnstile-admin on ", "user turnstile-worker on ", "user turnstile-gateway on "} {
		if !strings.Contains(string(kept), line) {
			t.Errorf("the file has no %q", line)
		}
	}
}

// Without a password for the administrator, or a way to keep the users, nothing is called done.
func TestScriptOfUsersSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--requirepass", "secret")
	host, port, _ := strings.Cut(server.Addr(), ":")
	for want, environ := range map[string][]string{
		"set it to a long random text": nil,
		"give its password":            {"ADMIN_PASSWORD=a"},
		"The default user is still on": {"ADMIN_PASSWORD=a", "REDISCLI_AUTH=secret"}, // Redis has no file to keep users in
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "../../docs/redis-users.sh", "-h", host, "-p", port)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s", err, out)
		}
	}
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret"})
	t.Cleanup(func() { _ = c.Close() })
	expect.OK(t, c.Ping(t.Context()).Err())
}

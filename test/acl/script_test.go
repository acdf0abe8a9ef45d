package acl_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/expect"
	"turnstile/test/program"
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
		if worker == "another" { // as the script of 0.x before 2026-11-28 left it in a file
			expect.OK(t, login("turnstile-admin", "an admin's $word").Do(t.Context(), "ACL", "SETUSER", "default", "reset", "off").Err())
		}
		out, err := script(worker)
		if err != nil || out != "redis-users: set and kept: turnstile-admin turnstile-worker turnstile-gateway; default is off\n" {
			t.Fatalf("%v: %s", err, out)
		}
		expect.OK(t, login("turnstile-admin", "an admin's $word").ACLLog(t.Context(), 1).Err())
		expect.OK(t, login("turnstile-worker", worker).Ping(t.Context()).Err())
		for name, try := range map[string][]any{
			"no login": {"PING"}, "AUTH": {"AUTH", "x"}, "AUTH of its name": {"AUTH", "default", ""}, "HELLO": {"HELLO", "2", "AUTH", "default", ""}, "CONFIG": {"CONFIG", "GET", "dir"},
		} {
			expect.Equal(t, "the default user is let in by "+name, login("", "").Do(t.Context(), try...).Err() == nil, false)
		}
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
	for _, line := range []string{"user default off sanitize-payload ~* &* +@all", "user turnstile-admin on ", "user turnstile-worker on ", "user turnstile-gateway on "} {
		if !strings.Contains(string(kept), line) {
			t.Errorf("the file has no %q", line)
		}
	}
}

// Without a password for the administrator, or a way to store the users, the script reports no
// success.
func TestScriptOfUsersSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--requirepass", "secret")
	host, port, _ := strings.Cut(server.Addr(), ":")
	for _, c := range []struct { // in this order: the last one makes the administrator
		want    string
		environ []string
	}{
		{"set it to a long random text", nil},
		{"give its password", []string{"ADMIN_PASSWORD=a"}},
		{"The default user is still on", []string{"ADMIN_PASSWORD=a", "REDISCLI_AUTH=secret"}}, // Redis has no file to keep users in
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "../../docs/redis-users.sh", "-h", host, "-p", port)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.environ...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %s", err, out)
		}
	}
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret"})
	t.Cleanup(func() { _ = c.Close() })
	expect.OK(t, c.Ping(t.Context()).Err())
}

// Without an aclfile the users are kept in Redis' configuration file.
func TestScriptOfUsersKeepsThemInTheConfiguration(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	dir := t.TempDir()
	config, socket := filepath.Join(dir, "redis.conf"), filepath.Join(dir, "socket")
	expect.OK(t, os.WriteFile(config, []byte("port 0\nunixsocket "+socket+"\ndir "+dir+"\nrequirepass secret\n"), 0o600))
	login := func(user, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Username: user, Password: password, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	serve := func(user, password string) *program.Process {
		p := program.Start(t, program.Command(t, "redis-server", nil, config))
		expect.Soon(t, "the server", func() bool { return login(user, password).Ping(t.Context()).Err() == nil })
		return p
	}
	server := serve("", "secret")
	cmd := exec.CommandContext(t.Context(), "sh", "../../docs/redis-users.sh", "-s", socket)
	cmd.Env = append(os.Environ(), "ADMIN_PASSWORD=a", "WORKER_PASSWORD=w", "REDISCLI_AUTH=secret")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "redis-users: set and kept: turnstile-admin turnstile-worker; default is off\n" {
		t.Fatalf("%v: %s", err, out)
	}
	server.Signal(syscall.SIGTERM)
	expect.Equal(t, "the server's exit code", server.ExitCode(), 0)
	serve("turnstile-worker", "w")
	for _, password := range []string{"", "secret"} {
		expect.Equal(t, "the default user is let in", login("", password).Ping(t.Context()).Err() == nil, false)
	}
}

// A default user that is still on, or that lacks the rights with which Redis replays its append-only file, is detected,
// even if it has a password that the script does not know. Here a redis-cli loses the command that sets it.
func TestScriptOfUsersChecksTheDefaultUser(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"on >secret ~* &* +@all":             "the default user is still on",
		"off >secret":                        "the default user lacks rights",
		"off >secret ~* &* +@all -flushall":  "the default user lacks rights",
		"off >secret ~a* &* +@all":           "the default user lacks rights",
		"off >secret ~* resetchannels +@all": "the default user lacks rights",
	} {
		file := filepath.Join(t.TempDir(), "users.acl")
		expect.OK(t, os.WriteFile(file, []byte("user default "+user+"\nuser turnstile-admin on >a ~* &* +@all\n"), 0o600))
		server := redistest.StartServerAs(t, url.UserPassword("turnstile-admin", "a"), "--aclfile", file)
		host, port, _ := strings.Cut(server.Addr(), ":")
		dir := t.TempDir()
		cli, err := exec.LookPath("redis-cli")
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(dir, "redis-cli"), []byte("#!/bin/sh\ncase \"$*\" in *' SETUSER default off '*) echo OK ;; *) exec "+cli+" \"$@\" ;; esac\n"), 0o700))
		cmd := exec.CommandContext(t.Context(), "sh", "../../docs/redis-users.sh", "-h", host, "-p", port)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "ADMIN_PASSWORD=a"}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", user, err, out)
		}
	}
}

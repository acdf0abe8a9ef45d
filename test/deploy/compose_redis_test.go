package deploy

import (
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// secrets runs docs/compose-secrets.sh in a folder with copies of its files, and returns the folder and the variables in
// its .env.
func secrets(t *testing.T, environ ...string) (dir string, vars map[string]string) {
	t.Helper()
	dir = t.TempDir()
	expect.OK(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	for _, name := range []string{"compose-secrets.sh", "redis-users.sh", "redis-rules.txt"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(dir, "docs", name), text, 0o700))
	}
	var before string
	for range 2 { // a second run changes nothing
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "docs/compose-secrets.sh"))
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "compose-secrets: .env, users.acl and gateway-tokens.json are ready\n" {
			t.Fatalf("%v: %s", err, out)
		}
		env, err := os.ReadFile(filepath.Join(dir, ".env"))
		expect.OK(t, err)
		users, err := os.ReadFile(filepath.Join(dir, "users.acl"))
		expect.OK(t, err)
		tokens, err := os.ReadFile(filepath.Join(dir, "gateway-tokens.json"))
		expect.OK(t, err)
		hashes := string(users) + string(tokens)
		if now := string(env) + hashes; before != "" && now != before {
			t.Errorf("a second run makes\n%s of\n%s", now, before)
		} else {
			before = now
		}
		vars = map[string]string{}
		for line := range strings.Lines(string(env)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			vars[name] = value
			if strings.Contains(hashes, value) {
				t.Errorf("users.acl or gateway-tokens.json has %s", name)
			}
		}
	}
	for name, mode := range map[string]os.FileMode{".env": 0o600, "users.acl": 0o644, "gateway-tokens.json": 0o644} { // the containers' users read these two
		info, err := os.Stat(filepath.Join(dir, name))
		expect.OK(t, err)
		expect.Equal(t, "the mode of "+name, info.Mode().Perm(), mode)
	}
	return dir, vars
}

// The test runs the container's command with the users that compose mounts, except for the port and the
// image's entrypoint, which only changes the user. Each service works as its own user, and the default user
// is off.
func TestComposeRedis(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	dir, vars := secrets(t)
	c := readCompose(t, vars)
	s := c.Services["redis"]
	if len(s.Ports) > 0 {
		t.Errorf("Redis is published on %v", s.Ports)
	}
	volume, path, _ := strings.Cut(strings.Join(s.Volumes, " "), ":")
	if _, ok := c.Volumes[volume]; !ok || path != "/data" {
		t.Errorf("its data is not in a named volume: %v", s.Volumes)
	}
	if len(s.Environment) > 0 || len(s.Configs) != 1 {
		t.Fatalf("Redis needs no secret: environment %v, configs %v", s.Environment, s.Configs)
	}
	command := slices.Clone(s.Command)
	at := slices.Index(command, "--aclfile") + 1
	if at == 0 || command[at] != s.Configs[0].Target {
		t.Fatalf("%q does not use %v", command, s.Configs)
	}
	command[at] = filepath.Join(dir, c.Configs[s.Configs[0].Source].File)

	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	start := func() *program.Process {
		cmd := program.Command(t, command[0], nil, append(command[1:], "--port", port, "--bind", "127.0.0.1")...)
		cmd.Dir = dir
		return program.Start(t, cmd)
	}
	server := start()
	test := s.Healthcheck.Test[1:]
	if s.Healthcheck.Test[0] != "CMD" || test[0] != "redis-cli" {
		t.Fatalf("health check %q", s.Healthcheck.Test)
	}
	cli := func(user string, args ...string) (string, error) {
		args = append([]string{"-p", port}, args...)
		out, err := program.Command(t, "redis-cli", []string{"REDISCLI_AUTH=" + user}, args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	expect.Soon(t, "the health check", func() bool { _, err := cli("", test[1:]...); return err == nil })
	if out, _ := cli("", append(slices.Clone(test[1:len(test)-1]), "get", "x")...); !strings.Contains(out, "NOPERM") {
		t.Errorf("the health check's user reads a key: %q", out)
	}
	open := func(user, password string) redis.UniversalClient {
		client, err := redisconn.Open("redis://" + user + ":" + password + "@" + addr)
		expect.OK(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	administrator := open("turnstile-admin", vars["ADMIN_PASSWORD"])
	warnings, err := redisconn.Check(t.Context(), administrator)
	if err != nil || len(warnings) > 0 {
		t.Errorf("a worker would say of it: %q, %v", warnings, err)
	}
	expect.Equal(t, "appendonly", administrator.ConfigGet(t.Context(), "appendonly").Val()["appendonly"], "yes")
	stranger, err := redisconn.Open("redis://" + addr)
	expect.OK(t, err)
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); err == nil || !strings.Contains(redisconn.Explain(err), "wants a password") {
		t.Errorf("without the password: %v", err)
	}
	expect.OK(t, administrator.Do(t.Context(), "ACL", "LOG", "RESET").Err())

	services := composeServices{c, dir, vars, addr}
	services.work(t)
	services.outlives(t, "SIGKILL", func() {
		server.Kill()
		server = start()
	})
	services.outlives(t, "SHUTDOWN", func() {
		_ = administrator.Shutdown(t.Context()).Err() // there is no reply
		expect.Equal(t, "Redis' exit code", server.ExitCode(), 0)
		server = start()
	})

	refused, err := administrator.Do(t.Context(), "ACL", "LOG").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis refused %v, %v", refused, err)
	}
	// PID 1 of the container receives SIGTERM.
	server.Signal(syscall.SIGTERM)
	if code := server.ExitCode(); code != 0 || !strings.Contains(server.Output.String(), "bye bye") {
		t.Errorf("after SIGTERM: %d\n%s", code, server.Output.String())
	}
}

// composeServices are the services, run by hand.
type composeServices struct {
	compose
	dir   string // with docs/compose-secrets.sh's files
	vars  map[string]string
	redis string // its address
}

// command is a program in a service's container.
func (c composeServices) command(t *testing.T, service, name string, changed map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	environment := maps.Clone(c.Services[service].Environment)
	environment["REDIS_URL"] = strings.Replace(environment["REDIS_URL"], "redis:6379", c.redis, 1)
	maps.Copy(environment, changed)
	var list []string
	for name, value := range environment {
		list = append(list, name+"="+value)
	}
	return program.Command(t, program.Build(t, "turnstile/cmd/"+name), list, args...)
}

// work starts the services, and uses each.
func (c composeServices) work(t *testing.T) {
	t.Helper()
	say := func(cmd *exec.Cmd, want string) {
		t.Helper()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v: %s", cmd.Args[1:], err, out)
		}
	}
	request := func(method, url, user, body string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		expect.OK(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Prefer", "wait=60")
		r.Header.Set("Authorization", "Bearer "+c.vars["GATEWAY_TOKEN"])
		if user != "" {
			r.SetBasicAuth(user, c.vars["TURNSTILE_HTTP_TOKEN"])
		}
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		expect.OK(t, response.Body.Close())
		expect.Equal(t, method+" "+url, response.StatusCode, want)
	}
	healthy := func(service, name string, changed map[string]string) {
		t.Helper()
		expect.Soon(t, service+"'s health", func() bool { return c.command(t, service, name, changed, "health").Run() == nil })
	}
	workers, gateways, dashboards := freeAddr(t), freeAddr(t), freeAddr(t)

	changed := map[string]string{"TURNSTILE_HTTP_ADDR": workers}
	worker := program.Start(t, c.command(t, "worker", "worker", changed, c.Services["worker"].Command...))
	healthy("worker", "worker", changed)
	say(c.command(t, "gateway", "enqueue", nil, "-s", "demo", "--wait", "hello"), "echo: hello")

	tokens := filepath.Join(c.dir, c.Configs["tokens"].File)
	changed = map[string]string{"TURNSTILE_GATEWAY_ADDR": gateways, "TURNSTILE_GATEWAY_TOKENS_FILE": tokens}
	program.Start(t, c.command(t, "gateway", "gateway", changed, c.Services["gateway"].Command...))
	healthy("gateway", "gateway", changed)
	request("POST", "http://"+gateways+"/v1/sessions/demo/messages", "", `{"text": "hello"}`, 200)
	for _, words := range []string{"ps", "ls", "show demo", "dead", "outbox", "forget demo"} {
		say(c.command(t, "gateway", "worker", nil, strings.Fields(words)...), "")
	}

	changed = map[string]string{"TURNSTILE_HTTP_ADDR": dashboards}
	program.Start(t, c.command(t, "asynqmon", "worker", changed, c.Services["asynqmon"].Command...))
	healthy("asynqmon", "worker", changed)
	request("GET", "http://"+dashboards+"/asynqmon/api/queues", "any", "", 200)

	worker.Signal(syscall.SIGTERM)
	expect.Equal(t, "the worker's exit code", worker.ExitCode(), 0)
}

// A dashboard that may write has a Redis user that may.
func TestComposeDashboardThatWrites(t *testing.T) {
	t.Parallel()
	for _, write := range []string{"", "false", "true"} {
		dir, _ := secrets(t, "TURNSTILE_DASHBOARD_WRITE="+write)
		users, err := os.ReadFile(filepath.Join(dir, "users.acl"))
		expect.OK(t, err)
		_, user, ok := strings.Cut(string(users), "user turnstile-dashboard ")
		user, _, _ = strings.Cut(user, "\n")
		expect.Equal(t, "a user", ok, true)
		expect.Equal(t, "it may write: "+write, strings.Contains(user, " +del "), write == "true")
	}
}

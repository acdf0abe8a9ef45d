// Package acl runs tests as the users of docs/security.md, on a separate redis-server. It reads
// docs/redis-rules.txt, as operators do.
//
// Suite runs tests in a second process of the same test binary. They choose the user of each
// connection with As, which does nothing in the first process.
package acl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The users of docs/security.md.
const (
	Worker         = "turnstile-worker"
	Sender         = "turnstile-sender"
	TenantSender   = "acme-sender"
	Operator       = "turnstile-operator"
	Gateway        = "turnstile-gateway"
	Dashboard      = "turnstile-dashboard"
	DashboardWrite = "turnstile-dashboard-write"
	Sentinel       = "turnstile-sentinel" // of redis-sentinel, not of the data servers
)

// Tenant begins the keys of the sessions that TenantSender may use.
const Tenant = "acme:"

const (
	file     = "docs/redis-rules.txt"
	variable = "TURNSTILE_TEST_ACL" // set in the process of a Suite
	password = "a-password-of-tests"
	patience = 15 * time.Minute
)

// Rules are the arguments of each user's ACL SETUSER in the file. A shell parses its commands, as an
// operator's would.
func Rules(t testing.TB) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]string{}
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		command, ok := strings.CutPrefix(paragraph, "redis-cli ")
		if !ok {
			continue // a comment
		}
		const tell = `tell() { for word; do printf '%s\n' "$word"; done; }; tell `
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", tell+command).CombinedOutput()
		words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if err != nil || len(words) < 5 {
			t.Fatalf("%s: %v\n%s\n%s", file, err, command, out)
		}
		rules[words[2]] = words[3:]
	}
	for _, user := range []string{Worker, Sender, TenantSender, Operator, Gateway, Dashboard, DashboardWrite, Sentinel} {
		if rules[user] == nil {
			t.Fatalf("%s has no rules for %s", file, user)
		}
	}
	return rules
}

// root is the repository's folder.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// Server starts a redis-server with the users, and the administrator and default user of docs/redis-users.sh, by
// whose rights a restart finds what was stored. Client and URL log in as the administrator. The users may use all
// databases by the page's rule for that, because each test has one. The append-only file is synced at each
// write; args override that.
func Server(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users.acl")
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(root(t), "docs/redis-users.sh"), "--file", file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ADMIN_PASSWORD=" + password}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docs/redis-users.sh: %v: %s", err, out)
	}
	server := redistest.StartServerAs(t, url.UserPassword("turnstile-admin", password), append([]string{
		"--aclfile", file, "--databases", "1024", "--acllog-max-len", "1000", "--appendonly", "yes", "--appendfsync", "always",
	}, args...)...)
	Give(t, server)
	if err := server.Client().Do(t.Context(), "ACL", "SAVE").Err(); err != nil {
		t.Fatal(err)
	}
	return server
}

// Open returns a client of a server for a user.
func Open(t testing.TB, server *redistest.Server, user string) redis.UniversalClient {
	t.Helper()
	rdb, err := redisconn.Open(URL(t, server.URL(), user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Give creates the users on a server.
func Give(t testing.TB, server *redistest.Server) {
	t.Helper()
	for user, words := range Rules(t) {
		if user != Sentinel {
			Set(t, server.Client(), user, append(words, "+select")...)
		}
	}
}

// Set changes a user by rules of the file.
func Set(t testing.TB, rdb redis.UniversalClient, user string, words ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user}
	for _, word := range words {
		if strings.HasPrefix(word, ">") {
			word = ">" + password
		}
		args = append(args, word)
	}
	if err := rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("the rules of %s: %v", user, err)
	}
}

// Password is the password of every user.
func Password() string { return password }

// URL is a Redis URL for a user of the file.
func URL(t testing.TB, raw, user string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// As is URL in the process of a Suite, and raw elsewhere.
func As(t testing.TB, raw, user string) string {
	t.Helper()
	if os.Getenv(variable) == "" {
		return raw
	}
	return URL(t, raw, user)
}

// Client is a client of the test's database, in the process of a Suite as the user.
func Client(t testing.TB, user string) redis.UniversalClient {
	t.Helper()
	if os.Getenv(variable) == "" {
		return redistest.New(t)
	}
	rdb, err := redisconn.Open(URL(t, redistest.URL(t), user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Suite runs tests of the calling test's binary in a separate process, on a server with the page's
// users. Each test must pass, and the server must have refused nothing. It runs without the race
// detector, with which the tests run anyway.
func Suite(t *testing.T, names ...string) {
	t.Helper()
	expect.Unraced(t)
	if os.Getenv(variable) != "" {
		t.Skip("this is the suite's process")
	}
	server := Server(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^("+strings.Join(names, "|")+")$", "-test.v", "-test.timeout", patience.String())
	cmd.Env = append(os.Environ(), variable+"=true", "REDIS_URL="+server.URL())
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the suite under the users of %s: %v\n%s", file, errors.Join(err, ctx.Err()), failures(out))
	}
	for _, name := range names {
		if err == nil && !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
			t.Errorf("%s did not run", name)
		}
	}
	NothingRefused(t, server)
}

// failures is the output without the tests that passed.
func failures(out []byte) string {
	var kept []string
	for line := range strings.Lines(string(out)) {
		word := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(word, "=== "), strings.HasPrefix(word, "--- PASS"):
		default:
			kept = append(kept, line)
		}
	}
	text := strings.Join(kept, "")
	return text[max(0, len(text)-8000):]
}

// NothingRefused checks that ACL LOG is empty.
func NothingRefused(t testing.TB, server *redistest.Server) {
	t.Helper()
	for _, r := range Refused(t, server) {
		t.Errorf("Redis refused %s: %s %s (%s), %s", r.User, r.Reason, r.Object, r.Context, r.Client)
	}
}

// Refusal is an entry of ACL LOG.
type Refusal struct{ User, Reason, Object, Context, Client string }

// Refused reads ACL LOG.
func Refused(t testing.TB, server *redistest.Server) []Refusal {
	t.Helper()
	entries, err := server.Client().ACLLog(context.WithoutCancel(t.Context()), 1000).Result()
	if err != nil {
		t.Fatal(err)
	}
	list := make([]Refusal, 0, len(entries))
	for _, e := range entries {
		list = append(list, Refusal{e.Username, e.Reason, e.Object, e.Context, fmt.Sprint(e.ClientInfo)})
	}
	return list
}

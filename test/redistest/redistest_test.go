package redistest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func TestNewGivesEveryTestItsOwnEmptyDatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	mine := redistest.New(t)
	if err := mine.Set(ctx, "k", "outer", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if again := redistest.New(t); again != mine {
		t.Error("a second New of the same test gave another client")
	}
	options, err := redis.ParseURL(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	byURL := redis.NewClient(options)
	defer byURL.Close()
	if got := byURL.Get(ctx, "k").Val(); got != "outer" {
		t.Errorf("URL leads to another database: k = %q", got)
	}
	t.Run("another", func(t *testing.T) {
		if n := redistest.New(t).DBSize(ctx).Val(); n != 0 {
			t.Errorf("a fresh database holds %d keys", n)
		}
	})
	if got := mine.Get(ctx, "k").Val(); got != "outer" {
		t.Errorf("the subtest's end touched the outer database: k = %q", got)
	}
}

// REDIS_URL names a server that may have other users.
func TestRedisURLIsSharedPolitely(t *testing.T) {
	server := redistest.StartServer(t, "--databases", "3")
	ctx := t.Context()
	foreign := redis.NewClient(&redis.Options{Addr: server.Addr(), DB: 1})
	defer foreign.Close()
	if err := foreign.Set(ctx, "precious", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDIS_URL", server.URL())
	t.Run("taker", func(t *testing.T) {
		client := redistest.New(t)
		if err := client.Set(ctx, "mine", "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if url := redistest.URL(t); !strings.HasSuffix(url, "/2") {
			t.Errorf("took %s; database 0 has the locks, 1 is in use", url)
		}
		if n := server.Client().Exists(ctx, "turnstile:testredis:lock:2").Val(); n != 1 {
			t.Error("the database was taken without a lock")
		}
	})
	info := server.Client().Info(ctx, "keyspace").Val()
	if !strings.Contains(info, "db1:keys=1") || strings.Contains(info, "db2:") || strings.Contains(info, "db0:") {
		t.Errorf("after the test the server should hold one foreign key in database 1 and nothing else:\n%s", info)
	}
}

func TestServerKeepsItsAppendOnlyFileThroughAKill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "always", "--requirepass", "s3cret")
	if err := server.Client().Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	addr := server.Addr()
	server.Kill()
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the port still answers after Kill")
	}
	server.Start()
	if server.Addr() != addr {
		t.Errorf("restarted at %s, was %s", server.Addr(), addr)
	}
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	byURL := redis.NewClient(options)
	defer byURL.Close()
	if got, err := byURL.Get(ctx, "k").Result(); got != "v" || err != nil {
		t.Errorf("after the restart k = %q, %v", got, err)
	}
	server.Stop()
	server.Start()
	if got := server.Client().Get(ctx, "k").Val(); got != "v" {
		t.Errorf("after Stop and Start k = %q", got)
	}
}

func TestPausedServerAnswersOnlyWhenResumed(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client := server.Client()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	impatient := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer impatient.Close()
	if err := impatient.Ping(ctx).Err(); err == nil {
		t.Error("a paused server answered")
	}
	server.Resume()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a resumed server: %v", err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	ctx := t.Context()
	for i := range 50 {
		if err := cluster.Client().Set(ctx, fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range cluster.Nodes {
		if node.Client().DBSize(ctx).Val() == 0 {
			t.Errorf("of 50 keys none went to %s", node.Addr())
		}
		if !strings.Contains(cluster.URL(), node.Addr()) {
			t.Errorf("%s lacks %s", cluster.URL(), node.Addr())
		}
	}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := redistest.StartFailover(t)
	client := f.Client()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Wait(ctx, 1, 5*time.Second).Result(); n != 1 || err != nil {
		t.Fatalf("replicas that have the write: %d, %v", n, err)
	}
	f.Failover()
	if f.Current() != f.Replica {
		t.Fatal("the replica was not promoted")
	}
	if got := f.Replica.Client().Get(ctx, "k").Val(); got != "v" {
		t.Errorf("on the new master k = %q", got)
	}
	if err := f.Replica.Client().Set(ctx, "k", "w", 0).Err(); err != nil {
		t.Errorf("the new master takes no writes: %v", err)
	}
}

// A killed test binary leaves no server and no directory.
func TestServersDieWithTheirTestBinary(t *testing.T) {
	const role = "TURNSTILE_TESTREDIS_VICTIM"
	if os.Getenv(role) != "" {
		shared, err := redistest.New(t).ConfigGet(t.Context(), "dir").Result()
		if err != nil {
			t.Fatal(err)
		}
		private := redistest.StartServer(t)
		fmt.Println("victim", redistest.URL(t), shared["dir"], private.URL(), private.Dir())
		select {}
	}
	redistest.Real(t)
	t.Parallel()
	victim := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheirTestBinary$", "-test.v")
	victim.Env = append(os.Environ(), role+"=1", "REDIS_URL=")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var words []string
	for lines := bufio.NewScanner(out); len(words) == 0 && lines.Scan(); {
		if _, found, ok := strings.Cut(lines.Text(), "victim "); ok {
			words = strings.Fields(found)
		}
	}
	if err := victim.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	if len(words) != 4 {
		t.Fatalf("the victim said %q", words)
	}
	gone := func() error {
		for _, url := range []string{words[0], words[2]} {
			options, err := redis.ParseURL(url)
			if err != nil {
				return err
			}
			if c, err := net.Dial("tcp", options.Addr); err == nil {
				c.Close()
				return fmt.Errorf("%s still listens", options.Addr)
			}
		}
		for _, dir := range []string{words[1], words[3]} {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is still there (%w)", dir, err)
			}
		}
		return nil
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := gone()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// For the test the machine has no redis-server.
func TestWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("REDIS_URL", "")

	t.Run("embedded", func(t *testing.T) {
		t.Setenv("CI", "")
		client := redistest.New(t)
		ctx := t.Context()
		if err := client.Set(ctx, "k", "v", 20*time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); client.Exists(ctx, "k").Val() == 1; {
			if time.Now().After(end) {
				t.Fatal("the embedded server does not age its keys")
			}
		}
	})
	t.Run("fails in CI", func(t *testing.T) {
		for name, f := range map[string]func(testing.TB){
			"New":         func(t testing.TB) { redistest.New(t) },
			"Real":        redistest.Real,
			"StartServer": func(t testing.TB) { redistest.StartServer(t) },
		} {
			if r := record(t, "true", f); !r.failed || r.skipped {
				t.Errorf("%s with CI=true: failed %v, skipped %v", name, r.failed, r.skipped)
			}
		}
	})
	t.Run("skips elsewhere", func(t *testing.T) {
		if r := record(t, "", redistest.Real); r.failed || !r.skipped {
			t.Errorf("Real: failed %v, skipped %v", r.failed, r.skipped)
		}
	})
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed, skipped bool
}

func record(t *testing.T, ci string, f func(testing.TB)) *recorder {
	t.Helper()
	t.Setenv("CI", ci)
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r
}

func (r *recorder) Fatal(...any)          { r.failed = true; panic(r) }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }
func (r *recorder) Skip(...any)           { r.skipped = true; panic(r) }

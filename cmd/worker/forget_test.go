package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/process/workspace"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
)

func newClient(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	rdb, err := redisconn.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// traces are a session's keys, and the indexes that name it.
func traces(t *testing.T, rdb redis.UniversalClient, key string) (list []string) {
	t.Helper()
	ctx := limited(t)
	var mu sync.Mutex
	node := func(ctx context.Context, rdb redis.Cmdable) error {
		names, err := rdb.Keys(ctx, "*{session:"+key+"}*").Result()
		mu.Lock()
		defer mu.Unlock()
		list = append(list, names...)
		return err
	}
	var err error
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return node(ctx, master) })
	} else {
		err = node(ctx, rdb)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Unlisted} {
		if err := rdb.ZScore(ctx, index, key).Err(); !errors.Is(err, redis.Nil) {
			list = append(list, index)
		}
	}
	if rdb.SIsMember(ctx, rediskey.AllQueues, rediskey.Queue(key)).Val() {
		list = append(list, rediskey.AllQueues)
	}
	slices.Sort(list)
	return list
}

// forgetOn runs a session from its first message on, with workers that are child processes, and
// makes one of them forget it.
func forgetOn(t *testing.T, url string) {
	environ := []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_SWEEP_INTERVAL=1s", "TURNSTILE_DRAIN_TIMEOUT=0"}
	rdb := newClient(t, url)
	c := actors.NewClient(rdb)
	worker, log := process(t, environ)
	log.Await(t, "worker started")

	reply(t, c, "a", "title=A_title hello")
	reply(t, c, "b", "another session")
	if _, err := c.Session("a").NewTranscript(limited(t)); err != nil {
		t.Fatal(err)
	}
	reply(t, c, "a", "hello again")
	if end, err := c.Session("a").Wait(limited(t), send(t, c, "a", "fail=final")); err != nil || end.Status != session.StatusFailed {
		t.Fatal(end, err)
	}
	if _, err := c.Session("a").Send(limited(t), turnstile.Message{Text: "later", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	running := send(t, c, "a", "sleep=1h long")
	untilEvent(t, c, "a", running, session.EventTurnStarted)
	send(t, c, "a", "waits")

	before := traces(t, rdb, "a")
	cmd, said := process(t, environ, "forget", "a")
	exits(t, cmd, said, exitRefused)
	if said.String() != "worker: refused: a turn is running in session a; say /stop first, or wait. Nothing was deleted\n" {
		t.Errorf("%q", said)
	}
	if after := traces(t, rdb, "a"); !slices.Equal(before, after) {
		t.Errorf("a refused forget has changed %q to %q", before, after)
	}
	if _, err := c.Session("a").Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Session("a").Wait(limited(t), running); err != nil {
		t.Fatal(err)
	}
	awaitIdle(t, c, "a")

	cmd, said = process(t, environ, "forget", "a")
	exits(t, cmd, said, exitOK)
	for _, want := range []string{"Session a is forgotten: 4 transcript entries, 0 waiting messages, 1 delayed, 3 dead letters.\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if left := traces(t, rdb, "a"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if kept := traces(t, rdb, "b"); len(kept) < 3 {
		t.Errorf("of another session only this is left: %q", kept)
	}
	if r := call(t, environ[:1], "forget", "a").want(t, exitOther); r.err != "worker: session a is unknown; any remaining data was deleted\n" || r.out != "" {
		t.Errorf("%+v", r)
	}
	reply(t, c, "a", "begins anew")
	awaitIdle(t, c, "a")
	list := objects(t, call(t, environ[:1], "forget", "a", "--json").want(t, exitOK).out)
	if len(list) != 1 || list[0]["session"] != "a" || list[0]["entries"] != 2. || list[0]["archived"] != 0. {
		t.Errorf("%v", list)
	}
	beside(t, environ, rdb, c)
	_ = worker.Process.Kill()
}

// awaitIdle waits until a session has no owner, which is a moment after its last turn's end event.
func awaitIdle(t *testing.T, c *actors.Client, key string) {
	t.Helper()
	for ctx := limited(t); ; {
		info, err := c.Session(key).Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Phase == session.PhaseIdle {
			return
		}
	}
}

// beside forgets a session repeatedly while a sender sends to it and a worker runs its turns.
// Each message has a result, or is deleted.
func beside(t *testing.T, environ []string, rdb redis.UniversalClient, c *actors.Client) {
	t.Helper()
	stop := make(chan struct{})
	var sender sync.WaitGroup
	answered, gone := 0, 0
	sender.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := c.Session("a").Send(context.Background(), turnstile.Message{Text: "hello"})
			if err != nil {
				t.Error(err)
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), waits)
			end, err := c.Session("a").Wait(ctx, r.ID)
			cancel()
			switch {
			case errors.Is(err, session.ErrNotFound):
				gone++
			case err != nil || end.Reply != "echo: hello":
				t.Errorf("%+v, %v", end, err)
			default:
				answered++
			}
		}
	})
	forgotten, refused := 0, 0
	for range 20 {
		switch r := call(t, environ[:1], "forget", "a"); {
		case r.code == exitOK:
			forgotten++
		case r.code == exitRefused:
			refused++
		case r.code != exitOther || !strings.Contains(r.err, "is unknown"):
			t.Errorf("%+v", r)
		}
	}
	close(stop)
	sender.Wait()
	t.Logf("%d times forgotten, %d times refused; %d messages answered, %d gone", forgotten, refused, answered, gone)
	reply(t, c, "a", "the last one")
	awaitIdle(t, c, "a")
	call(t, environ[:1], "forget", "a").want(t, exitOK)
	if left := traces(t, rdb, "a"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	forgetOn(t, url)
}

func TestForgetOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	forgetOn(t, redistest.StartCluster(t).URL())
}

func TestForgetWithADirectory(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	root := t.TempDir()
	dir, err := workspace.Root{Path: root}.Directory("a")
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, "a", "waits")
	list := objects(t, call(t, []string{"REDIS_URL=" + url}, "forget", "a", "--json", "--workspace-dir", root).want(t, exitOK).out)
	if len(list) != 1 || list[0]["pending"] != 1. || filepath.Base(fmt.Sprint(list[0]["workspace"])) != filepath.Base(dir) {
		t.Errorf("%v", list)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	// A session that Redis no longer knows may still have a directory.
	if dir, err = (workspace.Root{Path: root}).Directory("a"); err != nil {
		t.Fatal(err)
	}
	environ := []string{"REDIS_URL=" + url, "TURNSTILE_WORKSPACE_DIR=" + root}
	r := call(t, environ, "forget", "a").want(t, exitOK)
	if want := "0 dead letters, and " + filepath.Join(root, filepath.Base(dir)) + ".\n"; !strings.HasSuffix(r.out, want) {
		t.Errorf("%q lacks %q", r.out, want)
	}
	call(t, environ, "forget", "a").want(t, exitOther)
	// If a file is in its place, the directory cannot be searched.
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = call(t, environ[:1], "forget", "a", "--workspace-dir", file).want(t, exitOther)
	if !strings.HasPrefix(r.err, "worker: session a is deleted in Redis, but its directory is not: ") {
		t.Errorf("%q", r.err)
	}
}

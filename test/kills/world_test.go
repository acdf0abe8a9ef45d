//go:build linux

package kills_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/kills"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// kinds are the agents. Each has a database of Redis, because a worker takes every session.
var kinds = []string{"model", "jsonl", "go"}

// lease is short, and may end under a live worker: then the turn goes on with another one.
const lease = 1500 * time.Millisecond

// world is the whole of a run.
type world struct {
	*testing.T
	redis  *redistest.Server
	killer *killer
	model  *model

	mu    sync.Mutex
	chats []*chat
}

func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{T: t, redis: acl.Server(t)}
	w.killer = newKiller(t, dir)
	w.model = newModel(t, w.killer, kills.Host{Dir: dir})
	agent, worker := program.Build(t, "turnstile/test/kills/agent"), program.Build(t, "turnstile/cmd/worker")
	for i, kind := range kinds {
		settings := []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, kills.DirVariable + "=" + dir,
			"REDIS_URL=" + acl.URL(t, w.url(i), acl.Worker), "TURNSTILE_SENTINEL_TTL=" + lease.String(), "TURNSTILE_SWEEP_INTERVAL=1s",
			"TURNSTILE_RECOVERY_RATE=1000/s", "TURNSTILE_CONCURRENCY=4", "TURNSTILE_EVENTS_BYTES=67108864",
			// Workers die before they have ended a step, again and again.
			"TURNSTILE_STUCK_LIMIT=1000", "TURNSTILE_MAX_ATTEMPTS=1000",
		}
		path, variables := worker, "TURNSTILE_AGENT_ENV="+kills.DirVariable+","+kills.WorkerVariable
		switch kind {
		case "model":
			settings = append(settings, variables, "TURNSTILE_AGENT=model", "TURNSTILE_MODEL=m", "TURNSTILE_MODEL_URL="+w.model.server.URL(),
				"TURNSTILE_TOOLS_FILE="+tools(t, dir, agent))
		case "jsonl":
			settings = append(settings, variables, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", "TURNSTILE_AGENT_COMMAND="+agent+" jsonl")
		default:
			path = agent
		}
		for j := range 2 {
			name := fmt.Sprint(kind, j)
			// The model's server knows the worker by its key.
			w.killer.start(name, path, append(settings[:len(settings):len(settings)], kills.WorkerVariable+"="+name, "TURNSTILE_MODEL_KEY="+name))
		}
		rdb := w.open(i, acl.Sender)
		for range 8 {
			w.killer.users.Go(func() { w.use(kind, actors.NewClient(rdb)) })
		}
	}
	return w
}

// run returns when all kills are made and every message has ended.
func (w *world) run() {
	ended := make(chan struct{})
	go func() {
		w.killer.users.Wait()
		close(ended)
	}()
	for {
		select {
		case <-w.killer.redis:
			w.redis.Kill()
			w.redis.Start()
		case <-ended:
			return
		}
	}
}

func (w *world) url(database int) string {
	return strings.TrimSuffix(w.redis.URL(), "0") + fmt.Sprint(database)
}

func (w *world) open(database int, user string) redis.UniversalClient {
	rdb, err := redisconn.Open(acl.URL(w, w.url(database), user))
	expect.OK(w, err)
	w.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// tools writes the file with the model's tools.
func tools(t *testing.T, dir, agent string) string {
	t.Helper()
	var list []map[string]any
	for n := range kills.Steps {
		tool := map[string]any{
			"name": kills.Name(n), "argv": []string{agent, "tool", fmt.Sprint(n)}, "env": []string{kills.DirVariable, kills.WorkerVariable},
			"parameters": map[string]any{"type": "object", "properties": map[string]any{"message": map[string]string{"type": "string"}}},
		}
		if kills.Safe(n) {
			tool["safe"] = true
		}
		if kills.Again(n) {
			tool["unknown"] = "retry"
		}
		list = append(list, tool)
	}
	text, err := json.Marshal(list)
	expect.OK(t, err)
	file := filepath.Join(dir, "tools.json")
	expect.OK(t, os.WriteFile(file, text, 0o600))
	return file
}

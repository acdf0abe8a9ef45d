package traffic

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"time"

	"turnstile/chaos/internal/world"
	"turnstile/test/history"
)

// command sends a slash command to a session. It is not repeated: without a response, nobody knows
// whether it was carried out.
func (t *Traffic) command(rng *rand.Rand, key string) func() {
	all := [...]string{
		"/stop", "/new", "/undo", "/retry", "/resume", "/status", "/title a title", "/approve", "/deny", "/approve", "/history 3",
		"/queue collect debounce:0.2s", "/queue steer", "/queue interrupt", "/queue cap:2 drop:old", "/queue cap:2 drop:summarize", "/queue reset",
	}
	text := all[rng.IntN(len(all))]
	byEnqueue := rng.IntN(3) == 0
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		rec := history.Record{Kind: history.Command, Session: key, Name: text, Since: time.Now().UnixNano()}
		var err error
		if byEnqueue {
			var out []byte
			rec.Via = viaEnqueue
			cmd := exec.CommandContext(ctx, t.world.Programs.Enqueue, "--redis", t.world.RedisURL(world.Sender), "-s", key, text)
			cmd.Env = []string{"PATH=/usr/bin:/bin"}
			out, err = cmd.CombinedOutput()
			rec.Reply = string(out)
		} else {
			rec.Via = viaClient
			rec.Reply, err = t.client.Session(key).Command(ctx, text)
		}
		if err != nil {
			rec.Error = err.Error()
		}
		t.log.Add(rec)
	}
}

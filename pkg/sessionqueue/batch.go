package sessionqueue

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// batchesInFlight is how many round trips the owner's moves may have under way
// at once. Two keep Redis busy while answers travel.
const batchesInFlight = 2

// batcher sends what concurrent turns have to say in shared round trips. A move
// that comes alone is sent at once; those that come while others are under way
// go together with the next round trip. Each move stays a script of its own.
type batcher struct {
	c *Consumer

	mu     sync.Mutex
	queue  []*move
	flying int
}

type move struct {
	script *redis.Script
	keys   []string
	args   []any
	answer reply
	done   chan struct{}
}

// run sends a move and waits for its answer, or for ctx: then it is unknown
// whether it was carried out.
func (b *batcher) run(ctx context.Context, script *redis.Script, keys []string, args []any) (answer, error) {
	m := &move{script: script, keys: keys, args: args, done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, m)
	lead := b.flying < batchesInFlight
	if lead {
		b.flying++
	}
	b.mu.Unlock()
	if lead {
		b.flush()
	}
	select {
	case <-m.done:
		return m.answer.answer, m.answer.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// flush sends what is queued. What has been queued meanwhile is another
// goroutine's: the caller's own answer is here.
func (b *batcher) flush() {
	b.mu.Lock()
	batch := b.queue
	b.queue = nil
	if len(batch) == 0 {
		b.flying--
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	// A batch belongs to several turns: none of them may cancel it. The client's
	// own timeouts bound it.
	b.send(context.Background(), batch)
	b.mu.Lock()
	more := len(b.queue) > 0
	if !more {
		b.flying--
	}
	b.mu.Unlock()
	if more {
		go b.flush()
	}
}

func (b *batcher) send(ctx context.Context, batch []*move) {
	if len(batch) == 1 {
		m := batch[0]
		m.answer.answer, m.answer.err = run(ctx, b.c.rdb, m.script, m.keys, m.args...)
		close(m.done)
		return
	}
	cmds := make([]*redis.Cmd, len(batch))
	_, _ = b.c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
		for i, m := range batch {
			cmds[i] = m.script.EvalSha(ctx, p, m.keys, m.args...)
		}
		return nil
	})
	for i, m := range batch {
		a, err := cmds[i].Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			a, err = m.script.Eval(ctx, b.c.rdb, m.keys, m.args...).Slice()
		}
		m.answer = reply{a, err}
		close(m.done)
	}
}

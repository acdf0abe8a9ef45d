package simulate

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/outbox"
	"turnstile/pkg/worker"
)

// process is a worker's process: a worker with its maintenance jobs, and a deliverer.
type process struct {
	life *life
	name string
	dead chan struct{} // closed when it is killed

	redis, hook *link // its ways to Redis and to the receiver
	rdb         redis.UniversalClient
	worker      *worker.Worker
	deliverer   *outbox.Deliverer
}

// drain is how long a drained worker lets turns continue.
const drain = 10 * time.Second

// startProcess starts a process. It returns nil if Redis is unreachable, because such a process
// exits.
func startProcess(l *life, name string) *process {
	p := &process{
		life: l, name: name, dead: make(chan struct{}),
		redis: l.server.link(name), hook: newLink(l.seed, "hook of "+name, l.receiver.serve),
	}
	p.rdb = open(p.redis)
	log := slog.New(logger{log: l.log, process: name})
	var err error
	p.worker, err = worker.New(p.rdb, recorder{l, p}, worker.Config{
		Name: name, Concurrency: 4, DrainTimeout: 10 * time.Second, ParkAfter: parkAfter, Logger: log,
		// A short stream costs the embedded server less, and followers see gaps.
		Keep: worker.Keep{Results: 24 * time.Hour, EventBytes: 40 * 8 << 10}, StuckLimit: l.stuckLimit,
	})
	if err != nil {
		panic(err)
	}
	p.deliverer, err = outbox.New(p.rdb, outbox.Options{
		Destinations: func() *outbox.Destinations { return l.receiver.destinations }, Logger: log,
		Dial: func(context.Context, string, string) (net.Conn, error) { return p.hook.dial() },
	})
	if err != nil {
		panic(err)
	}
	start, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.worker.Start(start); err != nil {
		l.log.Note("%s does not start: %v", name, err)
		p.kill(false)
		return nil
	}
	p.deliverer.Start(start)
	return p
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// kill is kill -9: the process reaches nothing any more, and its agents end. lost: requests on their way
// are lost. Its goroutines cannot be killed. They notice in the background that Redis is unreachable.
func (p *process) kill(lost bool) {
	for _, l := range []*link{p.redis, p.hook} {
		l.release()
		l.setDown(true)
		l.cut(lost)
	}
	close(p.dead) // not before: nothing of what its agents then say reaches Redis
	p.life.server.unlink(p.redis)
	p.life.background.Go(func() { p.end(p.worker.Stop) })
}

// end ends a process as by SIGTERM or SIGHUP: it calls stop. After 30 s a second signal ends the drain.
func (p *process) end(stop func(context.Context) error) {
	cut, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if p.isDead() {
		cancel()
	}
	_ = stop(cut) // Redis may be away
	p.deliverer.Stop(cut)
	_ = p.rdb.Close()
	p.redis.release()
	p.hook.release()
	p.life.server.unlink(p.redis)
}

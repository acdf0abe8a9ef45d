package simulate

import (
	"context"
	"time"

	"turnstile/test/history"
)

// makeFaults makes faults until ctx ends. Those that last end soon after.
func (l *life) makeFaults(ctx context.Context) {
	kinds := []struct {
		name string
		make func(*life, string)
	}{
		{"worker killed", func(l *life, kind string) { l.endWorker(kind, killed) }},
		{"worker killed", func(l *life, kind string) { l.endWorker(kind, killed) }},
		{"worker drained", func(l *life, kind string) { l.endWorker(kind, drained) }},
		{"worker restarted", func(l *life, kind string) { l.endWorker(kind, restarted) }},
		{"process in a black hole", (*life).blackHole},
		{"process in a black hole", (*life).blackHole},
		{"connections cut", (*life).cutProcess},
		{"network slow", (*life).slowProcess},
		{"Redis restarted", (*life).restartRedis},
		{"Redis paused", (*life).pauseRedis},
		{"Redis loading", (*life).loadRedis},
		{"scripts flushed", (*life).flush},
		{"all connections cut", (*life).cutAll},
	}
	for {
		sleep(ctx, l.rng.about(8*time.Second))
		if ctx.Err() != nil {
			return
		}
		kind := pick(l.rng, kinds...)
		kind.make(l, kind.name)
	}
}

// fault records a fault that lasts for d.
func (l *life) fault(kind, target string, d time.Duration) {
	now := time.Now()
	l.log.Add(history.Record{Kind: history.Fault, Name: kind, Target: target, Since: now.UnixNano(), At: now.Add(d).UnixNano()})
}

// later ends a fault after a while, while others may continue.
func (l *life) later(after time.Duration, heal func()) {
	l.healing.Go(func() {
		sleep(l.ctx, after)
		heal()
	})
}

func (l *life) endWorker(kind string, how ending) {
	s := pick(l.rng, l.slots...)
	select {
	case s.ends <- how:
		l.fault(kind, s.name, 0)
	default: // it is ending or starting
	}
}

// way picks one of a running process's links, or nil.
func (l *life) way() *link {
	p := l.process()
	if p == nil {
		return nil
	}
	return pick(l.rng, p.redis, p.redis, p.hook)
}

func (l *life) blackHole(kind string) {
	if way, d := l.way(), 100*time.Millisecond+l.rng.about(15*time.Second); way != nil {
		l.fault(kind, way.name, d)
		way.hold()
		l.later(d, way.release)
	}
}

func (l *life) slowProcess(kind string) {
	if way, d := l.way(), l.rng.about(15*time.Second); way != nil {
		l.fault(kind, way.name, d)
		way.setSlow(time.Second)
		l.later(d, func() { way.setSlow(0) })
	}
}

func (l *life) cutProcess(kind string) {
	if way, before := l.way(), l.rng.chance(2); way != nil {
		l.fault(kind, way.name, 0)
		way.cut(before)
	}
}

func (l *life) cutAll(kind string) {
	l.fault(kind, "Redis", 0)
	l.server.each(func(way *link) { way.cut(l.rng.chance(2)) })
}

func (l *life) restartRedis(kind string) {
	d := l.rng.about(2 * time.Second)
	l.fault(kind, "Redis", d)
	l.server.stop()
	l.server.flushScripts(l.ctx)
	sleep(l.ctx, d)
	l.server.start()
}

func (l *life) pauseRedis(kind string) {
	d := l.rng.about(4 * time.Second)
	l.fault(kind, "Redis", d)
	l.server.each((*link).hold)
	sleep(l.ctx, d)
	l.server.each((*link).release)
}

// stopRedis pauses Redis four times, each time until every sentinel has expired.
func (l *life) stopRedis(context.Context) {
	for range 4 {
		sleep(l.ctx, 2*time.Second+l.rng.about(5*time.Second))
		d := 15*time.Second + l.rng.about(5*time.Second)
		l.fault("Redis paused", "Redis", d)
		l.server.each((*link).hold)
		sleep(l.ctx, d)
		l.server.each((*link).release)
	}
}

func (l *life) loadRedis(kind string) {
	d := l.rng.about(2 * time.Second)
	l.fault(kind, "Redis", d)
	l.server.redis.SetError("LOADING Redis is loading the dataset in memory")
	sleep(l.ctx, d)
	l.server.redis.SetError("")
}

func (l *life) flush(kind string) {
	l.fault(kind, "Redis", 0)
	l.server.flushScripts(l.ctx)
}

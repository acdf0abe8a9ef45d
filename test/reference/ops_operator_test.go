package reference_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/test/reference"
)

func die(l *life, a, b, c int) step {
	if l.model.Owner == 0 {
		return l.instead(a, b, c)
	}
	return step{"the owner's sentinel ends", ok(l.model.Die), ok(l.die)}
}

// one is a message that exists, or existed.
func (l *life) one(a int) string {
	if all := l.existing(); len(all) > 0 {
		return all[a%len(all)]
	}
	return id(a)
}

// button is an operation of an operator on a message.
func button(l *life, a int, name string, model func(id string) bool, actual func(queue, id string) error) step {
	if len(l.model.Messages) == 0 {
		return send(l, a, 0, 0)
	}
	which := l.one(a)
	return step{"operator " + name + " " + which, func() string { return fmt.Sprint(model(which)) }, func() string {
		return allowed(actual(rediskey.Queue(key), rediskey.TaskID(key, l.actual.names.ids([]string{which})[0])))
	}}
}

func archive(l *life, a, _, _ int) step {
	return button(l, a, "archives", l.model.OperatorArchives, l.actual.inspector.ArchiveTask)
}

func remove(l *life, a, _, _ int) step {
	return button(l, a, "deletes", l.model.OperatorDeletes, l.actual.inspector.DeleteTask)
}

func runTask(l *life, a, _, _ int) step {
	return button(l, a, "runs", l.model.OperatorRuns, l.actual.inspector.RunTask)
}

func pause(l *life, _, _, _ int) step {
	return step{"operator pauses", func() string { return fmt.Sprint(l.model.Pause()) },
		func() string { return allowed(l.actual.inspector.PauseQueue(rediskey.Queue(key))) }}
}

func unpause(l *life, a, b, c int) step {
	if !l.model.Paused {
		return l.instead(a, b, c)
	}
	return step{"operator resumes", func() string { return fmt.Sprint(l.model.Unpause()) },
		func() string { return allowed(l.actual.inspector.UnpauseQueue(rediskey.Queue(key))) }}
}

func deleteQueue(l *life, a, _, c int) step {
	if a%3 > 0 {
		return rerun(l, a, 0, c)
	}

	return step{"operator deletes the queue", func() string { return fmt.Sprint(l.model.OperatorDeletesQueue()) },
		func() string { return allowed(l.actual.inspector.DeleteQueue(rediskey.Queue(key), true)) }}
}

// outside is a call of pkg/resume.
func outside(l *life, name string, model func() bool, actual func(context.Context, redis.UniversalClient, string) (bool, error)) step {
	return step{name + " from outside", func() string { return fmt.Sprint(model()) }, func() string {
		done, err := actual(l.actual.ctx, l.actual.rdb, key)
		l.actual.must(err)
		return fmt.Sprint(done)
	}}
}

func markOutside(l *life, a, _, _ int) step {
	reason := []string{"", "lease_lost"}[a%2]
	return outside(l, fmt.Sprintf("mark %q", reason), func() bool { return l.model.MarkOutside(reason) },
		func(ctx context.Context, rdb redis.UniversalClient, key string) (bool, error) {
			return resume.Mark(ctx, rdb, key, reason)
		})
}

func suspendOutside(l *life, _, _, _ int) step {
	return outside(l, "suspend", l.model.SuspendOutside, resume.Suspend)
}

func clearOutside(l *life, _, _, _ int) step {
	return outside(l, "clear", l.model.ClearOutside, resume.Clear)
}

func timers(l *life, a, _, _ int) step {
	job := []string{"reap", "due", "sweep"}[a%3] // the sweep includes trim
	return step{job, func() string {
		switch job {
		case "reap":
			l.model.Reap()
		case "due":
			l.model.DueTimer()
		default:
			return fmt.Sprint(l.model.Sweep(), " found ok")
		}
		return reference.OK
	}, func() string { return l.actual.timer(job) }}
}

func maintain(l *life, a, _, _ int) step {
	if a%2 == 0 {
		return step{"purge, unregister, forget", func() string { return fmt.Sprint(l.model.Maintain()) }, l.actual.maintain}
	}
	return step{"a day later the ids are free; purge, unregister, forget", func() string {
		l.model.FreeIDs()
		return fmt.Sprint(l.model.Maintain())
	}, func() string {
		l.actual.freeIDs()
		return l.actual.maintain()
	}}
}

func find(l *life, _, _, _ int) step {
	return step{"find", func() string { return fmt.Sprint(l.model.Find()) }, func() string {
		n, err := l.actual.workers[0].Find(l.actual.ctx)
		l.actual.must(err)
		return fmt.Sprint(n)
	}}
}

func minutes(l *life, a, _, _ int) step {
	return l.wait(time.Duration(1+a%6) * 30 * time.Second)
}

// days pass while the session has no owner, and old data is removed.
func days(l *life, a, b, c int) step {
	if l.model.Owner != 0 {
		return minutes(l, a, b, c)
	}
	d := 72 * time.Hour
	if a%3 == 2 {
		d = 1000 * time.Hour
	}
	s := maintain(l, a, b, c)
	return step{d.String() + " pass, " + s.name, s.model, func() string {
		l.pass(d)
		return s.actual()
	}}
}

func (l *life) wait(d time.Duration) step {
	return step{d.String() + " pass", func() string { return "" }, func() string {
		l.pass(d)
		return ""
	}}
}

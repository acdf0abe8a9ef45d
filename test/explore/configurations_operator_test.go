package explore_test

import (
	"cmp"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

func operatorOnes() []configuration {
	id := rediskey.TaskID(main, "m2")
	press := func(name string, button func(i *asynq.Inspector, queue string) error, removed ...string) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: "asynqmon-" + name, Purpose: "asynqmon's button at any point of a turn", AtLeast: 300, Removed: removed,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2")), Without: []string{"once"},
			Processes: with(list(operator(name, button), working("worker1", behaviour{renews: true})), timers()),
		}}
	}
	return []configuration{
		press("pause", func(i *asynq.Inspector, q string) error {
			if err := i.PauseQueue(q); err != nil {
				return err
			}
			return i.UnpauseQueue(q)
		}),
		press("archive", func(i *asynq.Inspector, q string) error { return i.ArchiveTask(q, id) }),
		press("archive-all", func(i *asynq.Inspector, q string) error { _, err := i.ArchiveAllPendingTasks(q); return err }),
		press("archive-run", func(i *asynq.Inspector, q string) error {
			if err := i.ArchiveTask(q, id); err != nil {
				return err
			}
			return i.RunTask(q, id)
		}, "m2"),
		press("delete", func(i *asynq.Inspector, q string) error { return i.DeleteTask(q, id) }, "m2"),
		press("delete-queue", func(i *asynq.Inspector, q string) error { return i.DeleteQueue(q, true) }, "m1", "m2"),
		press("cancel", func(i *asynq.Inspector, _ string) error { return i.CancelProcessing(id) }),
	}
}

func cleaningOnes() []configuration {
	cleaners := func() []explore.Process { return lazily(purger(), unregisterer(), forgetter()) }
	clean := func(name, purpose string, c explore.Configuration) configuration {
		c.Name, c.Purpose, c.Cleans, c.Kept, c.Horizon, c.AtLeast = name, purpose, true, time.Hour, 2*time.Hour, cmp.Or(c.AtLeast, 20)
		return configuration{Configuration: c}
	}
	// forgotten is the time when a session has left all indexes.
	forgotten := func(v explore.View) bool {
		_, known := v.Score(rediskey.Sessions, main)
		return !known && !v.Has(rediskey.AllQueues)
	}
	// purged is the time when its results are gone, and nothing else keeps it.
	purged := func(v explore.View) bool { return !waits(v, main) && !v.Has(rediskey.For(main).Completed()) }
	// returning is a sender that comes back at that time.
	returning := func() explore.Process {
		return explore.Process{Name: "sender1", Crashes: true, Until: purged, Run: func(l *explore.Life) {
			c := actors.NewClient(l.Redis)
			send(l, c, main, text("m1"))
			l.Pause()
			send(l, c, main, text("m2"))
		}}
	}
	late := func(p explore.Process) explore.Process {
		p.Until = forgotten
		return p
	}
	return []configuration{
		clean("forgotten", "an idle session leaves no key behind", explore.Configuration{
			Processes: with(list(sender("sender1", text("m1")), working("worker1", behaviour{})), timers(), cleaners()),
		}),
		clean("forgotten-title", "nor does one that saw a title only", explore.Configuration{
			AtLeast: 5,
			Processes: with(list(once("title", func(l *explore.Life) error {
				return actors.NewClient(l.Redis).Session(main).SetTitle(l.Context, "title")
			})), timers(), cleaners()),
		}),
		// No index has such a message until Find finds it, which must happen.
		clean("forgotten-plain", "a plain sender's second message, long after the session was forgotten", explore.Configuration{
			Without:   []string{"leftover", "index"},
			Processes: with(list(late(plainSender("plain", "m1", "", "m2")), working("worker1", behaviour{})), timers(), cleaners(), lazily(finder())),
		}),
		clean("forgotten-send", "the same of Send, and its sender dies before it notifies", explore.Configuration{
			Without: []string{"leftover"}, Kinds: explore.Crash, Faults: 1,
			Processes: with(list(late(returning()), working("worker1", behaviour{})), timers(), cleaners()),
		}),
		clean("forgotten-race", "a sender dies anywhere, amid those that take its session out of the indexes", explore.Configuration{
			Without: []string{"leftover"}, Kinds: explore.Crash, Faults: 1, AtLeast: 1_000,
			Processes: with(list(returning(), working("worker1", behaviour{}), survivor(unregisterer()), survivor(forgetter()), survivor(purger())), timers()),
		}),
		clean("expired", "a message that comes again when its result is gone is refused, and runs once", explore.Configuration{
			Kinds: explore.NetFaults, Faults: 1, Without: []string{"leftover"},
			Processes: with(list(explore.Process{Name: "sender1", Until: purged, Run: func(l *explore.Life) {
				c := actors.NewClient(l.Redis)
				send(l, c, main, text("m1"))
				l.Pause()
				send(l, c, main, text("m1"))
			}}, working("worker1", behaviour{})), timers(), cleaners()),
		}),
		clean("purged", "results and dead letters go at any step, beside turns and repeated messages", explore.Configuration{
			Kinds: explore.Crash | explore.ClockJump, Faults: 1, Without: []string{"leftover"}, AtLeast: 300,
			Processes: with(list(sender("sender1", text("m1"), text("m2"), text("m1")), working("worker1", behaviour{kept: time.Second}), survivor(purger())), timers()),
		}),
		{Configuration: explore.Configuration{
			Name: "unkept", Purpose: "without results nothing is lost, and nothing runs twice", AtLeast: 300,
			Kinds: explore.Crash | explore.NetFaults, Faults: 1, Ordered: []string{"m1"},
			Processes: with(list(sender("sender1", text("m1"), text("m2"), text("m1")),
				working("worker1", behaviour{kept: unkept})), timers()),
		}},
		clean("cleaners", "purge, unregister and forget, against a sender and one another", explore.Configuration{
			Without: []string{"leftover"},
			Processes: with(list(late(sender("sender1", text("m1"))), sender("sender2", text("m2")), working("worker1", behaviour{}), unregisterer(), forgetter(), purger()),
				timers()),
		}),
		clean("asynqmon-delete-idle", "asynqmon deletes an idle queue: its results go, too", explore.Configuration{
			Removed:   []string{"m1"},
			AtLeast:   10,
			Before:    append(before(text("m1")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: with(list(operator("delete", func(i *asynq.Inspector, q string) error { return i.DeleteQueue(q, false) })), timers(), cleaners()),
		}),
		{Configuration: explore.Configuration{
			Name: "asynqmon-pause-archive", Purpose: "paused behind a turn, all archived, resumed: nobody waits", AtLeast: 100,
			Before: before(text("m1")),
			Processes: with(list(sender("sender2", text("m2")), operator("pause-archive", func(i *asynq.Inspector, q string) error {
				if err := i.PauseQueue(q); err != nil {
					return err
				}
				if _, err := i.ArchiveAllPendingTasks(q); err != nil {
					return err
				}
				return i.UnpauseQueue(q)
			}), working("worker1", behaviour{})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "special", Purpose: "who writes a mark, a journal or a lease says so in run", AtLeast: 100,
			Kinds: explore.Crash | explore.NetFaults, Faults: 1, Before: before(text("m1")),
			Processes: with(list(drainer("worker1"), working("worker2", behaviour{renews: true, checkpoints: true})), timers()),
		}, Deep: true},
	}
}

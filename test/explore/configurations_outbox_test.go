package explore_test

import (
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

func outboxOnes() []configuration {
	id := rediskey.TaskID(main, "m2")
	delivers := func(name, purpose string, least int, c explore.Configuration) configuration {
		c.Name, c.Purpose, c.AtLeast, c.Finished = name, purpose, least, delivered
		if c.Check == nil {
			c.Check = badDelivery
		}
		if c.Kinds == 0 {
			c.Kinds, c.Faults = explore.Crash|explore.LostCall|explore.LostReply, 1
		}
		return configuration{Configuration: c, Deep: true}
	}
	operated := func(name string, press func(i *asynq.Inspector, queue string) error, removed ...string) configuration {
		return delivers("outbox-"+name, "an operator ends a message: its answer is delivered all the same", 100, explore.Configuration{
			Kinds: explore.Crash, Faults: 1, Before: routedBefore(text("m1"), text("m2")), Removed: removed,
			Processes: with(list(operator(name, press), working("worker1", behaviour{}), indexed("deliverer")), timers()),
		})
	}
	withdrawing := func(name, purpose string, kept time.Duration, c explore.Configuration) configuration {
		c.Kinds, c.Faults, c.Removed, c.Check = explore.Crash|explore.LostReply|explore.ClockJump, 1, []string{"m1"}, notWithdrawn
		c.Before = append(routedBefore(text("m1")), func(l *explore.Life) { work(l, "worker0", behaviour{kept: kept}) })
		c.Processes = with(list(undoer("undo"), delivering("deliverer"), survivor(purger())))
		return delivers("outbox-"+name, purpose, 100, c)
	}
	return []configuration{
		delivers("outbox", "each answer arrives, in order, whatever fails", 1_000, explore.Configuration{
			Kinds: explore.AllFaults &^ explore.Resend, Faults: 2,
			Before:    routedBefore(text("m1")),
			Processes: with(list(routed("sender2", text("m2")), working("worker1", behaviour{}), delivering("deliverer")), timers()),
		}),
		delivers("outbox-two-deliverers", "one of two deliverers has a line, and what a dead one left is marked", 1_000, explore.Configuration{
			Kinds: explore.Crash | explore.LostCall | explore.LostReply | explore.ClockJump, Faults: 2,
			Before:    append(routedBefore(text("m1"), text("m2")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: with(list(delivering("deliverer1"), delivering("deliverer2"), noticing("deliverer3"))),
		}),
		delivers("outbox-resends", "requests of deliverers are repeated", 500, explore.Configuration{
			Kinds: explore.Resend | explore.LostReply, Faults: 2, Check: unlessResent,
			Before:    append(routedBefore(text("m1"), text("m2")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: with(list(delivering("deliverer1"), delivering("deliverer2"))),
		}),
		delivers("outbox-unheard", "the sweep finds an answer of which no deliverer has heard", 500, explore.Configuration{
			Processes: with(list(routed("sender1", text("m1")), working("worker1", behaviour{}), indexed("deliverer")), timers()),
		}),
		delivers("outbox-crashes", "a worker dies anywhere, and its answer arrives", 500, explore.Configuration{
			Kinds: explore.Crash, Faults: 2, Before: routedBefore(text("m1")),
			Processes: with(list(working("worker1", behaviour{checkpoints: true}), delivering("deliverer")), timers()),
		}),
		delivers("outbox-stop", "/stop ends a turn, what waits, and what its owner left", 500, explore.Configuration{
			Kinds: explore.Crash, Faults: 2, Before: routedBefore(text("m1"), text("m2")),
			Processes: with(list(stopper("stop"), working("worker1", behaviour{renews: true}), delivering("deliverer")), timers()),
		}),
		delivers("outbox-question", "a question that arrives is closed, whatever ends it", 500, explore.Configuration{
			Kinds: explore.Crash | explore.LostReply, Faults: 1, Before: routedBefore(text("m1"), text("m2")), Check: openQuestion,
			Processes: with(list(once("decide", func(l *explore.Life) error {
				_, err := actors.NewClient(l.Redis).Session(main).Decide(l.Context, "1", "allow")
				return err
			}), working("worker1", behaviour{asks: true}), delivering("deliverer")), timers()),
		}),
		withdrawing("purged", "an /undo after the purge says so to whoever had the reply", time.Second, explore.Configuration{Cleans: true, Kept: time.Hour, Horizon: 2 * time.Hour, Without: []string{"leftover"}}),
		withdrawing("unkept", "and so does one that finds no results", unkept, explore.Configuration{}),
		operated("delete", func(i *asynq.Inspector, q string) error { return i.DeleteTask(q, id) }, "m2"),
		operated("archive", func(i *asynq.Inspector, q string) error { return i.ArchiveTask(q, id) }),
	}
}

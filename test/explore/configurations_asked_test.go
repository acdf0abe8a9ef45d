package explore_test

import (
	"slices"
	"strings"

	"turnstile"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

func askedOnes() []configuration {
	asks := func(name, purpose string, least int, a behaviour, messages ...turnstile.Message) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: name, Purpose: purpose, AtLeast: least, Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2")),
			Processes: with(list(sender("sender3", messages...), working("worker1", a)), timers()),
		}, Deep: true}
	}
	return []configuration{
		asks("interrupt", "an interrupting message ends the turn that runs and goes first", 5_000, behaviour{renews: true, checkpoints: true},
			mode("m3", session.ModeInterrupt), text("m4")),
		asks("rollback", "a message that takes the turn back leaves nothing of it", 5_000, behaviour{renews: true, checkpoints: true},
			mode("m3", session.ModeRollback), text("m4")),
		asks("steer", "a message is steered into the turn, or has one of its own", 5_000, behaviour{renews: true, steers: true},
			mode("m3", session.ModeSteer), text("m4")),
		asks("steer-ignored", "what was steered in and not taken goes back to its place", 5_000, behaviour{renews: true, steers: true, ignores: true},
			mode("m3", session.ModeSteer), text("m4")),
		asks("reject", "a refused message leaves nothing, and whoever is told accepted has a message", 2_000, behaviour{},
			mode("m3", session.ModeReject)),
		asks("collect", "collected messages are one turn", 5_000, behaviour{}, mode("m3", session.ModeCollect), mode("m4", session.ModeCollect)),
		{Configuration: explore.Configuration{
			Name: "stop", Purpose: "/stop ends the turn that it found and what waits", AtLeast: 5_000,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2")),
			Processes: with(list(stopper("stop"), sender("sender3", text("m3")), working("worker1", behaviour{renews: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "stop-holds", Purpose: "a turn that was told to stop is not run again, whatever becomes of its owner", AtLeast: 1_000,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1")), Check: runsAgain,
			Processes: with(list(stopper("stop"), working("worker1", behaviour{renews: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "cancel", Purpose: "a message that was cancelled does not run again, and the others run", AtLeast: 5_000,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2"), text("m3")), Check: cancelledRuns,
			Processes: with(list(canceller("m2"), working("worker1", behaviour{renews: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "cancel-retried", Purpose: "what waited behind a cancelled message is found without the sweep", AtLeast: 100,
			Before:    before(text("m1"), text("m2")),
			Processes: with(list(canceller("m1"), working("worker1", behaviour{fails: 1})), lazily(reaper(), duer())),
		}},
		{Configuration: explore.Configuration{
			Name: "stop-aside", Purpose: "/stop in batches, and its sender dies: a worker archives the rest", AtLeast: 1_000,
			Kinds: explore.Crash, Faults: 2, Before: before(text("m1"), text("m2"), text("m3")), Filter: inBatchesOfOne,
			Processes: with(list(stopper("stop"), working("worker1", behaviour{})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "stop-again", Purpose: "/stop behind one whose sender has died", AtLeast: 100,
			Kinds: explore.Crash, Faults: 1, Before: before(text("m1"), text("m2")), Filter: inBatchesOfOne,
			Processes: with(list(stopper("stop"), stopper("another"), survivor(sender("sender3", text("m3"))), survivor(working("worker1", behaviour{}))), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "new", Purpose: "/new in mid-turn: the turn ends into the old conversation", AtLeast: 5_000,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1")),
			Processes: with(list(rotator(), sender("sender2", text("m2")), working("worker1", behaviour{renews: true, checkpoints: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "new-and-crash", Purpose: "/new in mid-turn, then a crash: the new conversation knows nothing of it", AtLeast: 60,
			Kinds: explore.Crash, Faults: 1, Before: before(text("m1")), Check: noteOfAnother,
			Processes: with(list(rotator(), working("worker1", behaviour{tells: true, checkpoints: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "stop-flood", Purpose: "/stop in batches beside messages that are refused", AtLeast: 30,
			Before: append(before(text("m1")), func(l *explore.Life) {
				if c, err := actors.NewConsumer(l.Redis, named("worker0")); err == nil {
					_, _ = c.Claim(l.Context, []string{main})
				}
			}, before(text("m2"), text("m3"))[0]),
			Processes: list(stopper("stop"), sender("sender4", mode("m4", session.ModeReject))),
			Filter:    inBatchesOfOne, Finished: func(v explore.View) bool { return v.Told("stop done") },
			Check: func(v explore.View) string {
				k := rediskey.For(main)
				if id := rediskey.TaskID(main, "m2"); v.Told("stop done") && slices.Contains(v.Members(k.Pending()), id) ||
					v.Told("stop done") && slices.Contains(v.Members(k.Pending()), rediskey.TaskID(main, "m3")) {
					return "left: stop is done, and a message that waited before it waits"
				}
				return ""
			},
		}},
	}
}

// runsAgain finds a turn that goes on although its end was requested.
func runsAgain(v explore.View) string {
	run := rediskey.For(main).Run()
	fence, phase := v.Field(run, "fence"), v.Field(run, "phase")
	if !strings.HasPrefix(v.Field(run, "ids"), `["`+rediskey.TaskID(main, "m1")+`"`) || phase != "starting" && phase != "running" ||
		strings.HasPrefix(v.Field(run, "ending"), fence+" ") {
		return ""
	}
	if v.Told("stop parked") {
		return "again: /stop has found m1's turn between two attempts, and it goes on"
	}
	for _, request := range []string{"stop", "interrupt", "rollback"} {
		if of := v.Field(run, request); of != "" && of < fence {
			return "again: m1's turn was to end by a " + request + ", and goes on"
		}
	}
	return ""
}

// cancelledRuns finds a cancelled message that waits again, and another one that ended with it.
func cancelledRuns(v explore.View) string {
	k := rediskey.For(main)
	id := rediskey.TaskID(main, "m2")
	if v.Told("cancelled m2") && slices.Contains(slices.Concat(v.Members(k.Pending()), v.Members(k.Active())), id) {
		return "cancelled: m2 was cancelled, and waits or runs"
	}
	for _, other := range v.Members(k.Archived()) {
		if other != id {
			return "cancelled: " + other + " was ended with m2"
		}
	}
	fence, phase := v.Field(k.Run(), "fence"), v.Field(k.Run(), "phase")
	if v.Told("cancelling m2") && slices.Contains(v.Members(k.Active()), id) && phase != "idle" && fence != v.Field(k.Run(), "stop") &&
		!strings.HasPrefix(v.Field(k.Run(), "ending"), fence+" ") {
		return "again: m2's turn was to end, and m2 runs in another one"
	}
	return ""
}

// inBatchesOfOne makes /stop archive one message at a time.
func inBatchesOfOne(name string, cmd []string) []string {
	if name != "stop" && name != "claim" {
		return cmd
	}
	cmd = slices.Clone(cmd)
	for i := range cmd {
		if cmd[i] == "500 4194304" {
			cmd[i] = "1 4194304"
		}
	}
	return cmd
}

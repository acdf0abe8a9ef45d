package explore_test

import (
	"cmp"

	"turnstile/pkg/session"
	"turnstile/test/explore"
)

// stepOnes are about turns with steps. The first turn has two messages, and another one waits.
func stepOnes() []configuration {
	all := append(before(text("m0"), mode("m1", session.ModeCollect), mode("m2", session.ModeCollect), text("m3")), func(l *explore.Life) {
		work(l, "worker0", behaviour{makesWay: true}) // of m0
	})
	steps := func(name, purpose string, least int, kinds explore.Fault, faults int, processes ...explore.Process) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: name, Purpose: purpose, AtLeast: least, Kinds: kinds, Faults: faults, Before: all, Check: stepsKept,
			Processes: with(processes, timers()),
		}, Deep: true}
	}
	parked := func(name, purpose string, least int, asks explore.Process) configuration {
		c := steps(name, purpose, least, explore.AllFaults, 1, asks, working("worker1", behaviour{steps: 2, fails: 1}))
		c.Check = func(v explore.View) string { return cmp.Or(stepsKept(v), runsAgain(v)) }
		return c
	}
	waits := func(name, purpose string, least int, processes ...explore.Process) configuration {
		c := steps(name, purpose, least, explore.AllFaults, 1, processes...)
		c.Check = decisionKept
		return c
	}
	values := func(name, purpose string, least int, processes ...explore.Process) configuration {
		c := waits(name, purpose, least, processes...)
		c.Check = valueKept
		return c
	}
	renews := behaviour{steps: 2, renews: true}
	return []configuration{
		steps("steps-deaths", "a turn with steps goes on after its last stored one, wherever its workers die", 2_500, explore.Crash, 2,
			working("worker1", behaviour{steps: 2})),
		steps("steps-lost-leases", "an owner that lost its lease adds nothing to the journal of the next run", 6_000, explore.Expiry|explore.ClockJump, 2,
			working("worker1", behaviour{steps: 2, late: true}), working("worker2", behaviour{steps: 2})),
		steps("steps-network", "writes of a journal that are lost, repeated or late change nothing twice", 10_000, explore.NetFaults, 2,
			working("worker1", behaviour{steps: 2, late: true})),
		steps("steps-drain", "a drained turn with steps goes on before the messages behind it", 6_000, explore.AllFaults, 1,
			stepDrainer("worker1"), working("worker2", behaviour{steps: 2})),
		steps("steps-retry", "a failed attempt leaves its steps to the next one", 2_000, explore.AllFaults, 1,
			working("worker1", behaviour{steps: 2, fails: 1})),
		parked("steps-park-interrupt", "a message that interrupts ends a parked turn with its steps", 2_000, sender("sender4", mode("m4", session.ModeInterrupt))),
		parked("steps-park-rollback", "a message that rolls back takes a parked turn's steps with it", 2_000, sender("sender4", mode("m4", session.ModeRollback))),
		parked("steps-park-stop", "/stop ends a parked turn", 2_000, stopper("stop")),
		steps("steps-park-cancel", "the end of a parked turn is requested by its second message", 2_000, explore.AllFaults, 1,
			canceller("m2"), working("worker1", behaviour{steps: 2, fails: 1})),
		steps("steps-park-undo", "the turn before a parked one is not taken back", 2_000, explore.AllFaults, 1,
			undoer("undo"), working("worker1", behaviour{steps: 2, fails: 1})),
		steps("steps-park-new", "/new lets a parked turn go on in the new conversation", 2_000, explore.AllFaults, 1,
			rotator(), working("worker1", behaviour{steps: 2, fails: 1})),
		waits("steps-wait", "a parked turn goes on with the decision, or without one when nobody decides in time", 1_000, decider(), working("worker1", behaviour{steps: 2, waits: true})),
		waits("steps-wait-stop", "/stop ends a turn that waits, and a decision that was acknowledged counts", 1_000, decider(), stopper("stop"), working("worker1", behaviour{steps: 2, waits: true})),
		waits("steps-wait-new", "/new ends a turn that waits for a decision", 1_000, decider(), rotator(), working("worker1", behaviour{steps: 2, waits: true})),
		waits("steps-wait-interrupt", "a message that interrupts ends a turn that waits, and a decision that was acknowledged counts", 1_000,
			decider(), sender("sender4", mode("m4", session.ModeInterrupt)), working("worker1", behaviour{steps: 2, waits: true})),
		waits("steps-wait-steer", "a message that is to be steered in waits behind a turn that waits", 1_000,
			decider(), sender("sender4", mode("m4", session.ModeSteer)), working("worker1", behaviour{steps: 2, waits: true, steers: true})),
		values("steps-wait-value", "a parked turn goes on with the first value that a program gives", 1_000, giver("giver1", "1"), giver("giver2", "2"), working("worker1", behaviour{steps: 2, waits: true, value: true})),
		values("steps-wait-value-stop", "/stop ends a turn that waits for a value, and one that was acknowledged counts", 1_000, giver("giver1", "1"), stopper("stop"), working("worker1", behaviour{steps: 2, waits: true, value: true})),
		steps("steps-interrupt", "an interrupted turn ends with its steps, and they are in no other turn", 20_000, explore.AllFaults, 1,
			sender("sender4", mode("m4", session.ModeInterrupt)), working("worker1", renews)),
		steps("steps-rollback", "of a turn that is taken back no step is left", 20_000, explore.AllFaults, 1,
			sender("sender4", mode("m4", session.ModeRollback)), working("worker1", renews)),
		steps("steps-steer", "a steered message stays in a turn that goes on, once it stands in its journal", 20_000, explore.AllFaults, 1,
			sender("sender4", mode("m4", session.ModeSteer)), working("worker1", behaviour{steps: 2, renews: true, steers: true})),
		steps("steps-stop", "/stop ends a turn with steps, whatever becomes of its owner", 5_000, explore.AllFaults, 1,
			stopper("stop"), working("worker1", renews)),
		steps("steps-new", "/new lets a turn with steps end, and none of them gets into the new conversation's turns", 6_000, explore.AllFaults, 1,
			rotator(), working("worker1", renews)),
		{Configuration: explore.Configuration{
			Name: "steps-cancel", Purpose: "a turn with steps that was given back goes on without a cancelled message, and with those after it", AtLeast: 500,
			Before: append([]func(*explore.Life){settings(session.QueueSettings{Mode: session.ModeCollect, Cap: 10})},
				append(before(mode("m0", session.ModeQueue), text("m1"), text("m2"), text("m3")), func(l *explore.Life) {
					work(l, "worker0", behaviour{makesWay: true}) // of m0
				})...),
			Check:     stepsKept,
			Processes: with(list(canceller("m2"), stepDrainer("worker1"), working("worker2", behaviour{steps: 2})), timers()),
		}},
	}
}

// stepDrainer is a worker that drains once, in its first turn.
func stepDrainer(name string) explore.Process {
	p := working(name, behaviour{steps: 2, drains: true})
	p.Loops = false
	return p
}

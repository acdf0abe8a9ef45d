package explore_test

import (
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/rediskey"
	"turnstile/pkg/followup"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
	"turnstile/test/explore"
)

// configuration is one with what is known of it.
type configuration struct {
	explore.Configuration

	// Known is the number in issue 10 under which the finding stands that this
	// configuration has as long as the hole is there, and Finds is how that begins.
	// When the hole is mended, both go.
	Known, Finds string

	// Deep has one fault more by hand, and no bound of states.
	Deep bool
}

// configurations are searched one after the other. Each looks at one thing.
func configurations() []configuration {
	var all []configuration
	for _, group := range [][]configuration{plainOnes(), faultyOnes(), askedOnes(), lineOnes(), operatorOnes(), cleaningOnes()} {
		for _, c := range group {
			if c.Sessions == nil {
				c.Sessions = []string{main}
			}
			all = append(all, c)
		}
	}
	return all
}

func plainOnes() []configuration {
	return []configuration{
		{Configuration: explore.Configuration{
			Name: "two-senders-two-workers", Purpose: "no message is lost or overtaken where nothing fails",
			Ordered: []string{"m1", "m2", "m3"}, AtLeast: 100_000,
			Processes: with(list(sender("sender1", text("m1"), text("m3")), sender("sender2", text("m2")),
				working("worker1", behaviour{}), working("worker2", behaviour{})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "no-timers", Purpose: "where nothing fails, nobody has to look after anything",
			Ordered: []string{"m1", "m2", "m3"}, AtLeast: 15_000,
			Processes: list(sender("sender1", text("m1"), text("m3")), sender("sender2", text("m2")), working("worker1", behaviour{})),
		}},
		{Configuration: explore.Configuration{
			Name: "shares", Purpose: "a session makes way for another behind each turn, and is taken up again",
			Sessions: []string{main, other}, Ordered: []string{"m1", "m2", "m3"}, AtLeast: 1_000,
			Before: before(text("m1"), text("m2")),
			Processes: list(explore.Process{Name: "sender3", Run: func(l *explore.Life) {
				submit(l, sq.NewClient(l.Redis), other, text("m3"))
			}}, working("worker1", behaviour{makesWay: true}), working("worker2", behaviour{makesWay: true})),
		}},
		{Configuration: explore.Configuration{
			Name: "plain-sender", Purpose: "messages without a ring are found by the sweep, also where it comes in between",
			Ordered: []string{"m1", "m2"}, AtLeast: 300, Kinds: explore.Crash | explore.NetFaults, Faults: 2,
			Processes: with(list(plainSender("plain", "m1", "m2"), working("worker1", behaviour{}), sweeper()), lazily(reaper(), duer())),
		}},
		{Configuration: explore.Configuration{
			Name: "two-sessions", Purpose: "two claims in one script do not touch one another",
			Sessions: []string{main, other}, Ordered: []string{"m1", "m2", "m3"}, AtLeast: 10_000,
			Kinds: explore.AllFaults, Faults: 1,
			Processes: with(list(
				explore.Process{Name: "sender1", Run: func(l *explore.Life) {
					c := sq.NewClient(l.Redis)
					submit(l, c, main, text("m1"))
					submit(l, c, other, text("m2"))
					submit(l, c, other, text("m3"))
				}},
				working("worker1", behaviour{twice: true}), working("worker2", behaviour{immediate: true})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "delayed-without-sweep", Purpose: "the mover of the due index alone finds what is due", AtLeast: 15,
			Processes: list(explore.Process{Name: "sender1", Run: func(l *explore.Life) {
				submit(l, sq.NewClient(l.Redis), main, text("m1"), sq.Delay(3*time.Second))
			}}, working("worker1", behaviour{}), duer()),
		}},
		{Configuration: explore.Configuration{
			Name: "delayed", Purpose: "a delayed message joins the line when its time has come",
			Ordered: []string{"m1", "m2"}, AtLeast: 300, Kinds: explore.Crash | explore.NetFaults, Faults: 1,
			Processes: with(list(
				explore.Process{Name: "sender1", Run: func(l *explore.Life) {
					c := sq.NewClient(l.Redis)
					submit(l, c, main, text("m2"), sq.Delay(3*time.Second))
					submit(l, c, main, text("m1"))
				}},
				working("worker1", behaviour{})), timers()),
		}},
	}
}

func faultyOnes() []configuration {
	return []configuration{
		{Configuration: explore.Configuration{
			Name: "crashes", Purpose: "a worker dies anywhere, and its turn is run again",
			Ordered: []string{"m1", "m2"}, AtLeast: 3_000, Kinds: explore.Crash, Faults: 2, Without: []string{"special"},
			Processes: with(list(sender("sender1", text("m1"), text("m2")),
				working("worker1", behaviour{checkpoints: true}), working("worker2", behaviour{renews: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "network", Purpose: "requests and replies of senders and owners are lost or repeated",
			Ordered: []string{"m1", "m2"}, AtLeast: 10_000, Kinds: explore.NetFaults, Faults: 2,
			Processes: with(list(sender("sender1", text("m1"), text("m2")), working("worker1", behaviour{renews: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "lost-leases", Purpose: "an owner that lost its sentinel writes nothing",
			Ordered: []string{"m1", "m2"}, AtLeast: 10_000, Kinds: explore.OwnerFault | explore.ClockJump, Faults: 2, Without: []string{"special"},
			Processes: with(list(sender("sender1", text("m1"), text("m2")),
				working("worker1", behaviour{renews: true, checkpoints: true}), working("worker2", behaviour{immediate: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "drain", Purpose: "a drained turn is marked and given back, and a crash in that loses nothing",
			Ordered: []string{"m1", "m2"}, AtLeast: 5_000, Kinds: explore.AllFaults, Faults: 1, Without: []string{"special"},
			Before:    before(text("m1")),
			Processes: with(list(sender("sender2", text("m2")), drainer("worker1"), working("worker2", behaviour{})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "steady-resends", Purpose: "an owner's requests are repeated, also behind the next turn's beginning",
			Ordered: []string{"m1", "m2"}, AtLeast: 100, Kinds: explore.NetFaults, Faults: 2, Before: before(text("m1"), text("m2")),
			Processes: with(list(working("worker1", behaviour{})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "drain-without-sweep", Purpose: "a turn that is given back is taken up at once", AtLeast: 20,
			Before:    before(text("m1"), text("m2")),
			Processes: list(drainer("worker1"), working("worker2", behaviour{}), duer()), Without: []string{"special"},
		}},
		{Configuration: explore.Configuration{
			Name: "crash-without-sweep", Purpose: "a dead worker's session is found by reap alone", AtLeast: 300,
			Kinds: explore.Crash, Faults: 1,
			Processes: list(survivor(sender("sender1", text("m1"), text("m2"))), working("worker1", behaviour{}), reaper()),
		}},
		{Configuration: explore.Configuration{
			Name: "special-crashes", Purpose: "run says that a claim's end has to look at more", AtLeast: 80,
			Kinds: explore.Crash, Faults: 1, Before: before(text("m1")),
			Processes: with(list(working("worker1", behaviour{renews: true}), working("worker2", behaviour{checkpoints: true})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "retry", Purpose: "a failed turn stays at the head of the line, and waits there",
			Ordered: []string{"m1", "m2"}, AtLeast: 5_000, Kinds: explore.AllFaults, Faults: 1, Without: []string{"special"},
			Before:    before(text("m1")),
			Processes: with(list(sender("sender2", text("m2")), working("worker1", behaviour{fails: 1}), working("worker2", behaviour{fails: 1, immediate: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "reap", Purpose: "whoever dies behind a pop, reap finds the session: without the sweep", AtLeast: 1_000,
			Kinds: explore.Crash | explore.ClockJump, Faults: 2, Horizon: 20 * time.Second,
			Processes: list(survivor(sender("sender1", text("m1"), text("m2"))), working("worker1", behaviour{}), reaper()),
		}, Known: "10.8", Finds: "from here on"},
		{Configuration: explore.Configuration{
			Name: "reap-and-sweep", Purpose: "the timers of two workers die half-way, and no session is forgotten",
			AtLeast: 2_000, Kinds: explore.Crash | explore.NetFaults | explore.ClockJump, Faults: 1, Horizon: 20 * time.Second,
			Processes: list(sender("sender1", text("m1")), working("worker1", behaviour{}), reaper(), duer(), sweeper()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "claim-replies", Purpose: "a claim whose reply is lost is no worker's death", AtLeast: 100,
			Kinds: explore.LostReply, Faults: 3, Before: before(text("m1")), Check: diedUnstarted,
			Processes: with(list(working("worker1", behaviour{tells: true})), timers()),
		}, Known: "10.7", Finds: "m1 was given up"},
		{Configuration: explore.Configuration{
			Name: "claim-note", Purpose: "a turn is told of a crash only where one ran", AtLeast: 100,
			Kinds: explore.LostReply, Faults: 1, Before: before(text("m1")), Check: noteOfAnother,
			Processes: with(list(working("worker1", behaviour{tells: true, immediate: true})), timers()),
		}, Known: "10.7", Finds: "note"},
	}
}

// diedUnstarted finds a message that was given up, and never ran.
func diedUnstarted(v explore.View) string {
	k := rediskey.For(main)
	for _, id := range v.Members(k.Archived()) {
		if strings.Contains(v.Field(k.Task(id), "result"), "given up") && !slices.ContainsFunc(v.Facts(), func(f string) bool {
			return strings.HasPrefix(f, "started ")
		}) {
			return "m1 was given up, and was never started"
		}
	}
	return ""
}

// noteOfAnother finds a turn that is told of one which was cut off, where none of its
// conversation ran.
func noteOfAnother(v explore.View) string {
	for _, f := range v.Facts() {
		note, ok := strings.CutPrefix(f, "note ")
		turn, conversation, _ := strings.Cut(note, " ")
		if ok && !slices.ContainsFunc(v.Facts(), func(f string) bool {
			of, id, _ := strings.Cut(strings.TrimPrefix(f, "started "), " ")
			return strings.HasPrefix(f, "started ") && of != turn && id == conversation
		}) {
			return "note: turn " + turn + " is told that one was cut off, and none of its conversation was"
		}
	}
	return ""
}

// survivor is a process that does not crash.
func survivor(p explore.Process) explore.Process {
	p.Crashes = false
	return p
}

// drainer is a worker whose turns are cut off by its drain, once.
func drainer(name string) explore.Process {
	p := working(name, behaviour{drains: true})
	p.Loops = false
	return p
}

// before submits messages before the search begins.
func before(messages ...session.Message) []func(*explore.Life) {
	return []func(*explore.Life){func(l *explore.Life) {
		c := sq.NewClient(l.Redis)
		for _, m := range messages {
			submit(l, c, main, m)
		}
	}}
}

// settings configures the session before the search begins.
func settings(s followup.Settings) func(*explore.Life) {
	return func(l *explore.Life) {
		if err := sq.NewClient(l.Redis).Configure(l.Context, main, s); err != nil {
			panic(err)
		}
	}
}

// expect is a configuration that is known to find something.
func expect(c configuration, known, finds string) configuration {
	c.Known, c.Finds = known, finds
	return c
}

func askedOnes() []configuration {
	asks := func(name, purpose string, least int, a behaviour, messages ...session.Message) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: name, Purpose: purpose, AtLeast: least, Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2")),
			Without:   []string{"special"},
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
		expect(asks("reject", "a refused message leaves nothing, and whoever is told accepted has a message", 2_000, behaviour{},
			mode("m3", session.ModeReject)), "10.4", "lost:"),
		asks("collect", "collected messages are one turn", 5_000, behaviour{}, mode("m3", session.ModeCollect), mode("m4", session.ModeCollect)),
		{Configuration: explore.Configuration{
			Name: "stop", Purpose: "/stop ends the turn that it found and what waits", AtLeast: 5_000,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2")), Without: []string{"special"},
			Processes: with(list(stopper(), sender("sender3", text("m3")), working("worker1", behaviour{renews: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "new", Purpose: "/new in mid-turn: the turn ends into the old conversation", AtLeast: 5_000,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1")), Without: []string{"special"},
			Processes: with(list(rotator(), sender("sender2", text("m2")), working("worker1", behaviour{renews: true, checkpoints: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "new-and-crash", Purpose: "/new in mid-turn, then a crash: the new conversation knows nothing of it", AtLeast: 300,
			Kinds: explore.Crash, Faults: 1, Before: before(text("m1")), Without: []string{"special"}, Check: noteOfAnother,
			Processes: with(list(rotator(), working("worker1", behaviour{tells: true, checkpoints: true})), timers()),
		}, Known: "10.6", Finds: "note"},
		{Configuration: explore.Configuration{
			Name: "stop-flood", Purpose: "/stop in batches beside messages that are refused", AtLeast: 50,
			Before: append(before(text("m1")), func(l *explore.Life) {
				if c, err := sq.NewConsumer(l.Redis, named("worker0")); err == nil {
					_, _ = c.Claim(l.Context, []string{main})
				}
			}, before(text("m2"), text("m3"))[0]),
			Processes: list(stopper(), sender("sender4", mode("m4", session.ModeReject))),
			Filter:    inBatchesOfOne, Settled: func(v explore.View) bool { return v.Told("stop done") },
			Check: func(v explore.View) string {
				k := rediskey.For(main)
				if id := session.TaskID(main, "m2"); v.Told("stop done") && slices.Contains(v.Members(k.Pending()), id) ||
					v.Told("stop done") && slices.Contains(v.Members(k.Pending()), session.TaskID(main, "m3")) {
					return "left: stop is done, and a message that waited before it waits"
				}
				return ""
			},
		}, Known: "10.2", Finds: "left"},
	}
}

// inBatchesOfOne has /stop archive one message at a time.
func inBatchesOfOne(name string, cmd []string) []string {
	if name != "stop" {
		return cmd
	}
	cmd = slices.Clone(cmd)
	for i := range cmd {
		if cmd[i] == "500" {
			cmd[i] = "1"
		}
	}
	return cmd
}

func lineOnes() []configuration {
	full := func(name string, drop followup.Drop, least int) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: name, Purpose: "a full line refuses or drops, visibly", AtLeast: least, Kinds: explore.Crash | explore.NetFaults, Faults: 1,
			Before:    append([]func(*explore.Life){settings(followup.Settings{Cap: 1, Drop: drop})}, before(text("m1"))...),
			Processes: with(list(sender("sender1", text("m2"), text("m3")), working("worker1", behaviour{})), timers()),
			Without:   []string{"special"},
		}, Deep: true}
	}
	return []configuration{
		expect(full("full-new", followup.DropNew, 2_000), "10.4", "lost:"),
		full("full-old", followup.DropOld, 2_000),
		full("full-summarize", followup.DropSummarize, 2_000),
		{Configuration: explore.Configuration{
			Name: "undo-retry", Purpose: "/undo and /retry of one turn at once take it out once", AtLeast: 1_000,
			Kinds: explore.NetFaults | explore.Crash, Faults: 1, Removed: []string{"m1"},
			Before: append(before(text("m1")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: with(list(
				once("undo", func(l *explore.Life) error { _, err := sq.NewClient(l.Redis).Undo(l.Context, main); return err }),
				once("retry", func(l *explore.Life) error { _, err := sq.NewClient(l.Redis).Retry(l.Context, main); return err }),
				working("worker1", behaviour{})), timers()),
		}, Deep: true},
	}
}

func operatorOnes() []configuration {
	id := session.TaskID(main, "m2")
	press := func(name string, button func(i *asynq.Inspector, queue string) error, removed ...string) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: "asynqmon-" + name, Purpose: "asynqmon's button at any point of a turn", AtLeast: 300, Removed: removed,
			Kinds: explore.AllFaults, Faults: 1, Before: before(text("m1"), text("m2")), Without: []string{"special", "once"},
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
		c.Name, c.Purpose, c.Cleans, c.Kept, c.Horizon, c.AtLeast = name, purpose, true, time.Hour, 2*time.Hour, 20
		return configuration{Configuration: c}
	}
	// forgotten is when a session has left all indexes.
	forgotten := func(v explore.View) bool {
		_, known := v.Score(rediskey.Sessions, main)
		return !known && !v.Has(rediskey.AllQueues)
	}
	late := func(p explore.Process) explore.Process {
		p.Until = forgotten
		return p
	}
	return []configuration{
		expect(clean("forgotten", "an idle session leaves no key behind", explore.Configuration{
			Processes: with(list(sender("sender1", text("m1")), working("worker1", behaviour{})), timers(), cleaners()),
		}), "10.9", "leftover: asynq:{session:s}:processed"),
		expect(clean("forgotten-title", "nor does one that saw a title only", explore.Configuration{
			Processes: with(list(once("title", func(l *explore.Life) error {
				return sq.NewClient(l.Redis).SetTitle(l.Context, main, "title")
			})), timers(), cleaners()),
		}), "10.9", "leftover: turnstile:{session:s}:session"),
		expect(clean("forgotten-plain", "a plain sender's second message, long after the session was forgotten", explore.Configuration{
			Without:   []string{"leftover"},
			Processes: with(list(late(plainSender("plain", "m1", "", "m2")), working("worker1", behaviour{})), timers(), cleaners()),
		}), "10.3", "index:"),
		expect(clean("forgotten-submit", "the same of Submit, and its sender dies before the ring", explore.Configuration{
			Without: []string{"leftover"}, Kinds: explore.Crash, Faults: 1,
			Processes: with(list(late(explore.Process{Name: "sender1", Crashes: true, Run: func(l *explore.Life) {
				c := sq.NewClient(l.Redis)
				submit(l, c, main, text("m1"))
				l.Pause()
				submit(l, c, main, text("m2"))
			}}), working("worker1", behaviour{})), timers(), cleaners()),
		}), "10.3", "index:"),
		clean("cleaners", "purge, unregister and forget, against a sender and one another", explore.Configuration{
			Without: []string{"leftover"},
			Processes: with(list(late(sender("sender1", text("m1"))), sender("sender2", text("m2")), working("worker1", behaviour{}), unregisterer(), forgetter(), purger()),
				timers()),
		}),
		expect(clean("asynqmon-delete-idle", "asynqmon deletes an idle queue: its results go, too", explore.Configuration{
			Removed:   []string{"m1"},
			Before:    append(before(text("m1")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: with(list(operator("delete", func(i *asynq.Inspector, q string) error { return i.DeleteQueue(q, false) })), timers(), cleaners()),
		}), "10.14", "leftover: asynq:{session:s}:completed"),
		expect(configuration{Configuration: explore.Configuration{
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
		}}, "10.14", "followup:"),
		expect(configuration{Configuration: explore.Configuration{
			Name: "special", Purpose: "who writes a mark, a partial or a lease says so in run", AtLeast: 100,
			Kinds: explore.Crash | explore.NetFaults, Faults: 1, Before: before(text("m1")),
			Processes: with(list(drainer("worker1"), working("worker2", behaviour{renews: true, checkpoints: true})), timers()),
		}}, "10, rule 2", "special:"),
	}
}

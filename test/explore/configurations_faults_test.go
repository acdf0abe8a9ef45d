package explore_test

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

func faultyOnes() []configuration {
	return []configuration{
		{Configuration: explore.Configuration{
			Name: "crashes", Purpose: "a worker dies anywhere, and its turn is run again",
			Ordered: []string{"m1", "m2"}, AtLeast: 3_000, Kinds: explore.Crash, Faults: 2,
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
			Ordered: []string{"m1", "m2"}, AtLeast: 10_000, Kinds: explore.OwnerFault | explore.ClockJump, Faults: 2,
			Processes: with(list(sender("sender1", text("m1"), text("m2")),
				working("worker1", behaviour{renews: true, checkpoints: true}), working("worker2", behaviour{immediate: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "drain", Purpose: "a drained turn is marked and given back, and a crash in that loses nothing",
			Ordered: []string{"m1", "m2"}, AtLeast: 5_000, Kinds: explore.AllFaults, Faults: 1,
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
			Processes: list(drainer("worker1"), working("worker2", behaviour{}), duer()),
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
			Ordered: []string{"m1", "m2"}, AtLeast: 5_000, Kinds: explore.AllFaults, Faults: 1,
			Before:    before(text("m1")),
			Processes: with(list(sender("sender2", text("m2")), working("worker1", behaviour{fails: 1}), working("worker2", behaviour{fails: 1, immediate: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "reap", Purpose: "whoever dies behind a pop, reap finds the session: without the sweep", AtLeast: 300_000,
			Kinds: explore.Crash | explore.ClockJump, Faults: 2, Horizon: 20 * time.Second,
			Processes: list(survivor(sender("sender1", text("m1"), text("m2"))), working("worker1", behaviour{}), reaper()),
		}},
		{Configuration: explore.Configuration{
			Name: "reap-race", Purpose: "a session is woken while reap finds nothing in it, and its claimer dies: without the sweep", AtLeast: 500,
			Kinds: explore.Crash, Faults: 1, Horizon: 20 * time.Second,
			Before: append(before(text("m1")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: list(explore.Process{
				Name: "sender2", Until: func(v explore.View) bool { return v.Due(rediskey.Owned) || !v.Has(rediskey.Owned) },
				Run: func(l *explore.Life) {
					l.Pause()
					send(l, actors.NewClient(l.Redis), main, text("m2"))
				},
			}, working("worker1", behaviour{}), reaper()),
			Finished: func(v explore.View) bool { return v.Told("accepted s m2") && !waits(v, main) },
		}},
		{Configuration: explore.Configuration{
			Name: "due-and-reap", Purpose: "the mover of the due index dies half-way: reap finds what it moved, without the sweep", AtLeast: 5_000,
			Kinds: explore.Crash | explore.ClockJump, Faults: 2, Horizon: 20 * time.Second,
			Processes: list(explore.Process{Name: "sender1", Run: func(l *explore.Life) {
				c := actors.NewClient(l.Redis)
				send(l, c, main, text("m1"), actors.Delay(3*time.Second))
				send(l, c, main, text("m2"))
			}}, working("worker1", behaviour{}), duer(), reaper()),
		}},
		{Configuration: explore.Configuration{
			Name: "reap-and-sweep", Purpose: "the timers of two workers die half-way, and no session is forgotten",
			AtLeast: 2_000, Kinds: explore.Crash | explore.NetFaults | explore.ClockJump, Faults: 1, Horizon: 20 * time.Second,
			Processes: with(list(sender("sender1", text("m1")), working("worker1", behaviour{}), reaper(), sweeper()), lazily(duer())),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "short-leases", Purpose: "a dead worker's session is looked after as soon as its sentinel ends", AtLeast: 300,
			Kinds: explore.Crash | explore.NetFaults, Faults: 1, Before: before(text("m1"), text("m2")), Check: lookedAfterLate, Without: []string{"ttl"},
			Processes: list(working("worker1", behaviour{renews: true, ttl: shortTTL}), reaper()),
		}},
		{Configuration: explore.Configuration{
			Name: "claim-replies", Purpose: "a claim whose reply is lost is no worker's death", AtLeast: 100,
			Kinds: explore.LostReply, Faults: 3, Before: before(text("m1")), Check: diedUnstarted,
			Processes: with(list(working("worker1", behaviour{tells: true, immediate: true})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "claim-deaths", Purpose: "a worker that was never heard of after its claim is not counted as dead", AtLeast: 100,
			Kinds: explore.Crash, Faults: 3, Before: before(text("m1")), Check: diedUnstarted,
			Processes: with(list(working("worker1", behaviour{tells: true})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "living-owners", Purpose: "an owner that loses its lease and lives is no death", AtLeast: 100,
			Kinds: explore.Expiry | explore.ClockJump, Faults: 1, Before: before(text("m1")), Check: countedAlive,
			Processes: with(list(working("worker1", behaviour{survives: true, limit: 1}), working("worker2", behaviour{survives: true, limit: 1}), reaper())),
		}},
		{Configuration: explore.Configuration{
			Name: "living-owners-counted", Purpose: "what was counted of a living owner is taken back", AtLeast: 100,
			Kinds: explore.Expiry | explore.ClockJump, Faults: 2, Before: before(text("m1")), Check: countedAlive,
			Processes: with(list(working("worker1", behaviour{survives: true, limit: 2}), working("worker2", behaviour{survives: true, limit: 2}), reaper())),
		}},
		{Configuration: explore.Configuration{
			Name: "apart", Purpose: "messages whose turn kills its workers are taken apart once, and one of them is no dead letter", AtLeast: 1_000,
			Ordered: []string{"m1", "m2"}, Kinds: explore.Crash, Faults: 3, Check: takenApart,
			Before: append([]func(*explore.Life){settings(session.QueueSettings{Mode: session.ModeCollect, Cap: 2})},
				append(before(mode("m0", session.ModeQueue), text("m1"), text("m2")), func(l *explore.Life) {
					work(l, "worker0", behaviour{makesWay: true}) // of m0
				})...),
			Processes: with(list(working("worker1", behaviour{checkpoints: true, limit: 2})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "stock-server-dies", Purpose: "a message that a stock asynq.Server had when it died runs first", AtLeast: 100,
			Ordered: []string{"m1", "m2"}, Kinds: explore.Crash | explore.NetFaults, Faults: 1,
			Before:    append(before(text("m1"), text("m2")), takenByAsynq),
			Processes: with(list(working("worker1", behaviour{})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "claim-note", Purpose: "a turn is told of a crash only where one ran", AtLeast: 15,
			Kinds: explore.LostReply, Faults: 1, Before: before(text("m1")), Check: noteOfAnother,
			Processes: with(list(working("worker1", behaviour{tells: true, immediate: true})), timers()),
		}},
	}
}

// shortTTL is shorter than the time that senders leave a claimer.
const shortTTL = 5 * time.Second

// lookedAfterLate finds a session with an owner that may be dead for longer than its TTL before recovery
// checks it.
func lookedAfterLate(v explore.View) string {
	k := rediskey.For(main)
	at, ok := v.Score(rediskey.Owned, main)
	if v.Has(k.Sentinel()) && (!ok || at > v.Now()+shortTTL.Milliseconds()) {
		return "late: the session is held, and reap looks after it when its sentinel is long over"
	}
	return ""
}

// diedUnstarted finds a message that was given up and has never run.
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

// countedAlive finds a message that was given up, or a suspension, where no worker dies.
func countedAlive(v explore.View) string {
	k := rediskey.For(main)
	if v.Field(k.Resume(), "suspended") == "1" || len(v.Members(k.Archived())) > 0 {
		return "alive: no worker has died, and the message is given up or its session suspended"
	}
	return ""
}

// takenApart finds messages that are in a turn together after they were taken apart, and two dead letters of
// which only one has killed workers since.
func takenApart(v explore.View) string {
	k := rediskey.For(main)
	m1, m2 := rediskey.TaskID(main, "m1"), rediskey.TaskID(main, "m2")
	if phase := v.Field(k.Run(), "phase"); phase == "starting" || phase == "running" {
		if v.Field(k.Task(m2), "quiet") == "" && strings.Contains(v.Field(k.Run(), "ids"), m1+`","`+m2) {
			return "apart: m1 and m2 are in one turn again"
		}
	}
	if len(v.Members(k.Archived())) > 1 {
		return "apart: m1 and m2 are dead letters, and one of them has killed no worker alone"
	}
	return ""
}

// takenByAsynq takes the head of the line as asynq's dequeue does.
func takenByAsynq(l *explore.Life) {
	k := rediskey.For(main)
	id := l.Redis.LMove(l.Context, k.Pending(), k.Active(), "RIGHT", "LEFT").Val()
	l.Redis.HSet(l.Context, k.Task(id), "state", "active")
	l.Redis.HDel(l.Context, k.Task(id), "pending_since")
	l.Redis.ZAdd(l.Context, k.Lease(), redis.Z{Score: float64(time.Now().Add(30 * time.Second).Unix()), Member: id})
}

// noteOfAnother finds the first turn of a transcript with the note of an interruption.
func noteOfAnother(v explore.View) string {
	for _, f := range v.Facts() {
		note, ok := strings.CutPrefix(f, "note ")
		turn, conversation, _ := strings.Cut(note, " ")
		if ok && !slices.ContainsFunc(v.Facts(), func(f string) bool {
			of, id, _ := strings.Cut(strings.TrimPrefix(f, "started "), " ")
			return strings.HasPrefix(f, "started ") && of != turn && id == conversation
		}) {
			return "note: turn " + turn + " is told that one was interrupted, and none of its conversation was"
		}
	}
	return ""
}

// survivor is a process that does not crash.
func survivor(p explore.Process) explore.Process {
	p.Crashes = false
	return p
}

// drainer is a worker that drains once and interrupts its turns.
func drainer(name string) explore.Process {
	p := working(name, behaviour{drains: true})
	p.Loops = false
	return p
}

// before sends messages before the search begins.
func before(messages ...turnstile.Message) []func(*explore.Life) {
	return []func(*explore.Life){func(l *explore.Life) {
		c := actors.NewClient(l.Redis)
		for _, m := range messages {
			send(l, c, main, m)
		}
	}}
}

// settings configures the session before the search begins.
func settings(s session.QueueSettings) func(*explore.Life) {
	return func(l *explore.Life) {
		if err := actors.NewClient(l.Redis).Session(main).SetQueue(l.Context, s); err != nil {
			panic(err)
		}
	}
}

package explore_test

import (
	"strings"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

// configuration is a configuration with its known finding.
type configuration struct {
	explore.Configuration

	// Known is the number of the known hole that this configuration finds, and Finds is the
	// beginning of that finding. When the hole is closed, remove both.
	Known, Finds string

	// Deep has one more fault when run by hand, and no bound of states.
	Deep bool
}

// configurations are searched one after the other. Each is about one subject.
func configurations() []configuration {
	var all []configuration
	for _, group := range [][]configuration{plainOnes(), faultyOnes(), askedOnes(), lineOnes(), operatorOnes(), cleaningOnes(), outboxOnes(), stepOnes(), tenantOnes()} {
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
			Ordered: []string{"m1", "m2", "m3"}, AtLeast: 60_000,
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
			Sessions: []string{main, other}, Ordered: []string{"m1", "m2", "m3"}, AtLeast: 750,
			Before: before(text("m1"), text("m2")),
			Processes: list(explore.Process{Name: "sender3", Run: func(l *explore.Life) {
				send(l, actors.NewClient(l.Redis), other, text("m3"))
			}}, working("worker1", behaviour{makesWay: true}), working("worker2", behaviour{makesWay: true})),
		}},
		{Configuration: explore.Configuration{
			Name: "plain-sender", Purpose: "messages of a plain asynq.Client are found by the sweep, even when it runs between two of them",
			Ordered: []string{"m1", "m2"}, AtLeast: 300, Kinds: explore.Crash | explore.NetFaults, Faults: 2,
			Processes: with(list(plainSender("plain", "m1", "m2"), working("worker1", behaviour{}), sweeper()), lazily(reaper(), duer())),
		}},
		{Configuration: explore.Configuration{
			Name: "two-sessions", Purpose: "two claims in one script do not touch one another",
			Sessions: []string{main, other}, Ordered: []string{"m1", "m2", "m3"}, AtLeast: 10_000,
			Kinds: explore.AllFaults, Faults: 1,
			Processes: with(list(
				explore.Process{Name: "sender1", Run: func(l *explore.Life) {
					c := actors.NewClient(l.Redis)
					send(l, c, main, text("m1"))
					send(l, c, other, text("m2"))
					send(l, c, other, text("m3"))
				}},
				working("worker1", behaviour{twice: true}), working("worker2", behaviour{immediate: true})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "same-id", Purpose: "an id is one message: whoever comes second with it is refused",
			AtLeast: 1_000, Kinds: explore.NetFaults, Faults: 2, Check: takenForAnother,
			Processes: with(list(claimant("sender1", "one"), claimant("sender2", "another"), working("worker1", behaviour{})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "follows", Purpose: "of two messages that must follow the same one, one is stored",
			AtLeast: 10_000, Kinds: explore.NetFaults | explore.Crash, Faults: 1, Before: before(text("m1")), Check: forked,
			Processes: with(list(following("sender1", "m2", "m1"), following("sender2", "m3", "m1"), working("worker1", behaviour{})), timers()),
		}},
		{Configuration: explore.Configuration{
			Name: "delayed-without-sweep", Purpose: "the mover of the due index alone finds what is due", AtLeast: 15,
			Processes: list(explore.Process{Name: "sender1", Run: func(l *explore.Life) {
				send(l, actors.NewClient(l.Redis), main, text("m1"), actors.Delay(3*time.Second))
			}}, working("worker1", behaviour{}), duer()),
		}},
		{Configuration: explore.Configuration{
			Name: "delayed", Purpose: "a delayed message joins the line when its time has come",
			Ordered: []string{"m1", "m2"}, AtLeast: 300, Kinds: explore.Crash | explore.NetFaults, Faults: 1,
			Processes: with(list(
				explore.Process{Name: "sender1", Run: func(l *explore.Life) {
					c := actors.NewClient(l.Redis)
					send(l, c, main, text("m2"), actors.Delay(3*time.Second))
					send(l, c, main, text("m1"))
				}},
				working("worker1", behaviour{})), timers()),
		}},
	}
}

func lineOnes() []configuration {
	full := func(name string, drop session.DropPolicy, least int) configuration {
		return configuration{Configuration: explore.Configuration{
			Name: name, Purpose: "a full line refuses or drops, visibly", AtLeast: least, Kinds: explore.Crash | explore.NetFaults, Faults: 1,
			Before:    append([]func(*explore.Life){settings(session.QueueSettings{Cap: 1, Drop: drop})}, before(text("m1"))...),
			Processes: with(list(sender("sender1", text("m2"), text("m3")), working("worker1", behaviour{})), timers()),
		}, Deep: true}
	}
	return []configuration{
		full("full-new", session.DropNew, 2_000),
		full("full-old", session.DropOld, 2_000),
		full("full-summarize", session.DropSummarize, 2_000),
		{Configuration: explore.Configuration{
			Name: "undo-retry", Purpose: "/undo and /retry of one turn at once take it out once", AtLeast: 1_000,
			Kinds: explore.NetFaults | explore.Crash, Faults: 1, Removed: []string{"m1"},
			Before: append(before(text("m1")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: with(list(
				once("undo", func(l *explore.Life) error {
					_, err := actors.NewClient(l.Redis).Session(main).Undo(l.Context)
					return err
				}),
				once("retry", func(l *explore.Life) error {
					_, err := actors.NewClient(l.Redis).Session(main).Retry(l.Context)
					return err
				}),
				working("worker1", behaviour{})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "undo-undo", Purpose: "a repeated /undo takes no other turn out, whatever another one has taken out meanwhile", AtLeast: 80,
			Kinds: explore.NetFaults | explore.Crash, Faults: 1, Check: undoneTooMuch,
			Before:    append(before(text("m1"), text("m2"), text("m3")), func(l *explore.Life) { work(l, "worker0", behaviour{}) }),
			Processes: list(undoer("undo1"), undoer("undo2")),
		}, Deep: true},
	}
}

// claimant sends a message with the ID that others use too, once.
func claimant(name, text string) explore.Process {
	return explore.Process{Name: name, Run: func(l *explore.Life) {
		r, err := receipt.Input(l.Context, actors.NewClient(l.Redis).Session(main), turnstile.Message{ID: "m1", Text: text})
		switch {
		case err != nil:
		case r.Reason == "conflict":
			l.Report("conflict", name)
		default:
			l.Report(string(r.Status), name)
		}
	}}
}

// takenForAnother finds two messages with one ID that were both stored, or mistaken for one another.
func takenForAnother(v explore.View) string {
	stored := 0
	for _, f := range v.Facts() {
		switch status, name, _ := strings.Cut(f, " "); status {
		case string(receipt.Duplicate):
			return "same: " + name + " is told that its message was there before"
		case string(receipt.Accepted), string(receipt.Queued):
			stored++
		}
	}
	if stored > 1 {
		return "same: two messages with one id were accepted"
	}
	return ""
}

func undoer(name string) explore.Process {
	return once(name, func(l *explore.Life) error {
		_, err := actors.NewClient(l.Redis).Session(main).Undo(l.Context)
		return err
	})
}

// undoneTooMuch finds a transcript from which two calls of /undo removed three turns.
func undoneTooMuch(v explore.View) string {
	k := rediskey.For(main)
	if !v.Has(k.Transcript(v.Field(k.Record(), "session_id"))) {
		return "undone: two calls of /undo have taken three turns out"
	}
	return ""
}

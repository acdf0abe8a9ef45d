package checker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/test/checker"
	"turnstile/test/history"
)

var limits = checker.Limits{TTL: 3 * time.Second, Grace: 500 * time.Millisecond, Drain: time.Second, StuckLimit: 3}

// ms is a time of a history, in ms.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

const session = "plain:1"

// ordinary is a history of two messages, one after the other, in which every promise holds.
func ordinary() []history.Record {
	return slices.Concat(
		sent("m1", 1), turn("m1", 10, 20, 1), sent("m2", 5), turn("m2", 21, 30, 2, "m1"),
		[]history.Record{
			{At: ms(40), Kind: history.Wait, Session: session, ID: "m1", Via: "client", Status: "done", Reply: "saw m1."},
			post("d1", 35, "m1"),
			{At: ms(9), Kind: history.Stream, Session: session},
			{At: ms(60), Kind: history.Drained, Status: "ok"},
			final("m1"), final("m2"), entry("m1", 0), entry("m2", 2),
		},
		events(history.Followed, 30), events(history.Event, 70),
	)
}

// events are those of the turn of m1.
func events(kind string, at int64) (all []history.Record) {
	for _, e := range [][3]string{
		{"1-0.0", "turn_started", `{"type":"turn_started","turn":"tm1"}`},
		{"2-0.0", "text", `{"type":"text","turn":"tm1","text":"m1.0 m1.1 saw "}`},
		{"10-0.1", "turn_ended", `{"type":"turn_ended","turn":"tm1","status":"done","reply":"m1.0 m1.1 saw m1."}`},
	} {
		all = append(all, history.Record{At: ms(at), Kind: kind, Session: session, ID: e[0], Name: e[1], Text: e[2]})
	}
	return all
}

func sent(id string, at int64) []history.Record {
	r := history.Record{At: ms(at), Kind: history.Send, Session: session, ID: id, Via: "client", Mode: "queue", Plan: history.EndOK}
	if id == "m1" {
		r.Route = "hook"
	}
	told := r
	told.Kind, told.At, told.Status = history.Told, ms(at+1), history.Accepted
	return []history.Record{r, told}
}

// refused is the history of a message that was refused, with more records.
func refused(id string, more ...history.Record) []history.Record {
	records := sent(id, 45)
	records[1].Status, records[1].Reason = history.Refused, "busy"
	return append(records, more...)
}

func turn(id string, from, to, fence int64, seen ...string) []history.Record {
	r := history.Record{At: ms(from), Since: ms(from) - 1, Kind: history.Turn, Session: session, SID: "s", IDs: []string{id}, Via: "exec", Turn: "t" + id, Fence: fence, PID: int(fence), Seen: seen}
	end := r
	end.Kind, end.At, end.Status = history.Ended, ms(to), "ok"
	return []history.Record{r, end}
}

func post(delivery string, at int64, id string) history.Record {
	return history.Record{
		At: ms(at), Kind: history.Post, Session: session, ID: delivery, IDs: []string{id}, Name: "message.done", N: at, Status: "done",
		Reply: "saw " + id + ".", Sum: "s", Code: 204, Valid: true, Done: true,
	}
}

func final(id string) history.Record {
	return history.Record{At: ms(65), Kind: history.Final, Session: session, ID: id, Status: "done", Reply: "saw " + id + ".", Turn: "t" + id}
}

func entry(id string, n int64) history.Record {
	return history.Record{At: ms(66), Kind: history.Entry, Session: session, SID: "s", N: n, Role: "user", ID: id, Turn: "t" + id}
}

func TestOrdinaryHistoryHasNoFindings(t *testing.T) {
	t.Parallel()
	for _, f := range checker.Check(ordinary(), limits).Findings {
		t.Error(f)
	}
}

// Each rule finds its violation.
func TestRules(t *testing.T) {
	t.Parallel()
	change := func(kind, id string, change func(*history.Record)) func([]history.Record) []history.Record {
		return func(all []history.Record) []history.Record {
			for i := range all {
				if (kind == "" || all[i].Kind == kind) && (id == "" || all[i].ID == id || slices.Contains(all[i].IDs, id)) {
					change(&all[i])
				}
			}
			return all
		}
	}
	add := func(records ...history.Record) func([]history.Record) []history.Record {
		return func(all []history.Record) []history.Record { return append(all, records...) }
	}
	drop := func(kind, id string) func([]history.Record) []history.Record {
		return func(all []history.Record) []history.Record {
			return slices.DeleteFunc(all, func(r history.Record) bool { return r.Kind == kind && r.ID == id })
		}
	}
	changed := func(r history.Record, change func(*history.Record)) history.Record {
		change(&r)
		return r
	}
	// second is a delivery for m2, before that of m1.
	second := func(at int64, status string) func([]history.Record) []history.Record {
		return func(all []history.Record) []history.Record {
			all = change(history.Send, "m2", func(r *history.Record) { r.Route = "hook" })(all)
			all = change(history.Final, "m2", func(r *history.Record) { r.Status = status })(all)
			return append([]history.Record{post("d2", at, "m2")}, all...)
		}
	}
	for name, c := range map[string]struct {
		rule   string
		damage func([]history.Record) []history.Record
	}{
		"an overlap":                 {checker.Exclusive, change(history.Turn, "m2", func(r *history.Record) { r.Overlap = true })},
		"two agents at once":         {checker.Fenced, change(history.Ended, "m1", func(r *history.Record) { r.At = ms(5000) })},
		"a fencing token that falls": {checker.Fenced, change(history.Turn, "m2", func(r *history.Record) { r.Fence = 1 })},
		"entries out of order":       {checker.InOrder, change(history.Entry, "m1", func(r *history.Record) { r.N = 5 })},
		"turns out of order":         {checker.InOrder, change(history.Turn, "m1", func(r *history.Record) { r.At, r.Since = ms(35), ms(35)-1 })},
		"a message that is nowhere": {checker.Lost, change(history.Final, "m2", func(r *history.Record) {
			*r = history.Record{At: r.At, Kind: r.Kind, Session: session, ID: r.ID, Reason: "unknown"}
		})},
		"a message that waits": {checker.Lost, change(history.Final, "m2", func(r *history.Record) {
			*r = history.Record{At: r.At, Kind: r.Kind, Session: session, ID: r.ID, Reason: "pending"}
		})},
		"a refused message that is stored": {checker.Refused, add(refused("m3", history.Record{At: ms(65), Kind: history.Stored, Session: session, ID: "m3", Name: "scheduled"})...)},
		"a refused message that is known":  {checker.Refused, add(refused("m3", final("m3"))...)},
		"an accepted one that is unknown":  {checker.Lost, change(history.Wait, "m1", func(r *history.Record) { r.Status, r.Error = "unknown", "unknown message" })},
		"no entry":                         {checker.Lost, drop(history.Entry, "m2")},
		"two entries":                      {checker.Once, add(entry("m2", 4))},
		"a failure without a reason":       {checker.Outcome, change(history.Final, "m2", func(r *history.Record) { r.Status, r.Error = "failed", "who knows" })},
		"given up, and nothing died": {checker.Outcome, func(all []history.Record) []history.Record {
			for n := range int64(3) {
				all = append(all, history.Record{At: ms(12 + n), Since: ms(11 + n), Kind: history.Fault, Name: "Redis paused"})
			}
			return change(history.Final, "m2", func(r *history.Record) { r.Status, r.Error = "failed", "given up: its worker died 3 times" })(all)
		}},
		"a reply to another message":        {checker.Outcome, change(history.Final, "m2", func(r *history.Record) { r.Reply = "saw m1." })},
		"a history without the first":       {checker.History, change(history.Turn, "m2", func(r *history.Record) { r.Seen = nil })},
		"no delivery":                       {checker.Delivered, drop(history.Post, "d1")},
		"a delivery that failed":            {checker.Delivered, change(history.Post, "d1", func(r *history.Record) { r.Code, r.Done = 500, false })},
		"a withdrawal instead":              {checker.Delivered, change(history.Post, "d1", func(r *history.Record) { r.Name = "message.withdrawn" })},
		"a forged delivery":                 {checker.Signed, change(history.Post, "d1", func(r *history.Record) { r.Valid = false })},
		"a foreign context":                 {checker.Signed, change(history.Post, "d1", func(r *history.Record) { r.Error = "its context is that of \"plain:2\"" })},
		"a silent second attempt":           {checker.Repeated, add(changed(post("d1", 36, "m1"), func(r *history.Record) { r.Attempt, r.Done = 2, false }))},
		"a silent repetition, sent later":   {checker.Repeated, add(changed(post("d1", 2000, "m1"), func(r *history.Record) { r.Since, r.Done = ms(2000), false }))},
		"a delivery handled twice":          {checker.Repeated, add(changed(post("d1", 36, "m1"), func(r *history.Record) { r.Again = true }))},
		"other bytes":                       {checker.Repeated, add(changed(post("d1", 36, "m1"), func(r *history.Record) { r.Again, r.Done, r.Sum = true, false, "t" }))},
		"a delivery without a route":        {checker.Delivered, add(post("d2", 41, "m2"))},
		"deliveries out of order":           {checker.Sequence, add(changed(post("d2", 42, "m1"), func(r *history.Record) { r.N = 3 }))},
		"two deliveries of an outcome":      {checker.Delivered, add(post("d2", 36, "m1"))},
		"outcomes out of order":             {checker.Sequence, second(34, "done")},
		"outcomes of failures out of order": {checker.InOrder, second(34, "failed")},
		"another outcome for a wait":        {checker.Told, change(history.Wait, "m1", func(r *history.Record) { r.Reply = "saw m9." })},
		"a wait that fails":                 {checker.Told, change(history.Wait, "m1", func(r *history.Record) { r.Error = "lost" })},
		"an event too few":                  {checker.Followed, drop(history.Followed, "2-0.0")},
		"the last event too few":            {checker.Followed, drop(history.Followed, "10-0.1")},
		"no event":                          {checker.Followed, func(all []history.Record) []history.Record { return all[:len(all)-3] }},
		"an event twice":                    {checker.Followed, add(events(history.Followed, 31)...)},
		"a stream that begins anew":         {checker.Followed, add(history.Record{At: ms(31), Kind: history.Followed, Session: session, Name: "reset"})},
		"a gap":                             {checker.Followed, add(history.Record{At: ms(31), Kind: history.Followed, Session: session, Name: "gap"})},
		"a piece twice":                     {checker.Followed, change("", "2-0.0", func(r *history.Record) { r.Text = strings.Replace(r.Text, "m1.1", "m1.0", 1) })},
		"a text that the reply has not":     {checker.Followed, change(history.Event, "2-0.0", func(r *history.Record) { r.Text = strings.Replace(r.Text, "saw ", "saw saw ", 1) })},
		"an end that does not come":         {checker.Live, change(history.Drained, "", func(r *history.Record) { r.Status = "after 2m: a key is left" })},
		"a key that is left":                {checker.Leftover, add(history.Record{At: ms(80), Kind: history.Left, Name: "key"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := checker.Check(c.damage(ordinary()), limits).Findings
			if !slices.ContainsFunc(found, func(f checker.Finding) bool { return f.Rule == c.rule }) {
				t.Errorf("found %v, want something of %q", found, c.rule)
			}
		})
	}
}

// A message that was refused may be stored if another attempt had no response.
func TestRefusedAndStored(t *testing.T) {
	t.Parallel()
	stored := history.Record{At: ms(65), Kind: history.Stored, Session: session, ID: "m3", Name: "idem"}
	unknown := refused("m3", stored)
	unknown[1].Status = history.Unknown
	for name, more := range map[string][]history.Record{"refused": refused("m3"), "without a response": append(unknown, refused("m3")...)} {
		for _, f := range checker.Check(append(ordinary(), more...), limits).Findings {
			t.Errorf("%s: %s", name, f)
		}
	}
}

// A message runs again only after a fault.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	again := append(ordinary(), turn("m2", 20_000, 20_010, 3, "m1")...)
	bounded := func(records []history.Record) bool {
		return slices.ContainsFunc(checker.Check(records, limits).Findings, func(f checker.Finding) bool { return f.Rule == checker.Bounded })
	}
	if !bounded(again) {
		t.Error("a message ran again without a reason, and that is not found")
	}
	if bounded(append(again, history.Record{At: ms(900), Since: ms(800), Kind: history.Fault, Name: "worker killed"})) {
		t.Error("a message ran again after a worker was killed, and that is found")
	}
	if bounded(append(again, history.Record{At: ms(900), Since: ms(100), Kind: history.Stall})) {
		t.Error("a message ran again on a machine without time, and that is found")
	}
	for via, found := range map[string]bool{"exec": true, "model": false} {
		broken := slices.Clone(again)
		for i, r := range broken {
			if r.Kind == history.Send && r.ID == "m2" {
				broken[i].Plan = history.EndDie
			}
			if r.Kind == history.Turn && slices.Contains(r.IDs, "m2") {
				broken[i].Via = via
			}
		}
		if bounded(broken) != found {
			t.Errorf("an agent of %s died and its message ran again: found %v", via, !found)
		}
	}
}

// A message that kills its worker is given up after the allowed deaths, or one more if one did not
// count. Runs of a model do not count: its server kills nobody.
func TestPoisonIsGivenUp(t *testing.T) {
	t.Parallel()
	killed := func(deaths int64, via string) []history.Record {
		records := ordinary()
		for i := range records {
			if records[i].ID == "m2" {
				records[i].Plan = history.EndPoison
			}
		}
		for n := range deaths {
			run := turn("m2", 100+n, 101+n, 3+n, "m1")
			run[0].Via, run[1].Via = via, via
			records = append(records, run...)
			records = append(records, history.Record{At: ms(100 + n), Since: ms(100 + n), Kind: history.Fault, Name: history.WorkerKilled})
		}
		return records
	}
	poisoned := func(records []history.Record) bool {
		return slices.ContainsFunc(checker.Check(records, limits).Findings, func(f checker.Finding) bool {
			return f.Rule == checker.Bounded && strings.Contains(f.Text, "killed its worker")
		})
	}
	if poisoned(killed(3, "exec")) {
		t.Error("the allowed deaths are found")
	}
	if !poisoned(killed(4, "exec")) {
		t.Error("a death too many is not found")
	}
	if poisoned(killed(4, "model")) {
		t.Error("runs of a model count as deaths")
	}
}

// An agent that was killed before it wrote anything may have failed its message, if that waited at
// the time of the kill.
func TestAgentKilledBeforeItsFirstRecord(t *testing.T) {
	t.Parallel()
	for killed, allowed := range map[int64]bool{20: true, 200: false} {
		records := slices.DeleteFunc(ordinary(), func(r history.Record) bool {
			return (r.Kind == history.Turn || r.Kind == history.Ended) && r.IDs[0] == "m2" || r.Kind == history.Entry && r.ID == "m2"
		})
		for i := range records {
			if records[i].Kind == history.Final && records[i].ID == "m2" {
				records[i].Status, records[i].Error = "failed", "killed by signal: killed"
			}
		}
		records = append(records,
			history.Record{At: ms(40), Kind: history.Wait, Session: session, ID: "m2", Via: "client", Status: "failed", Reply: "saw m2."},
			history.Record{At: ms(killed), Since: ms(killed), Kind: history.Fault, Name: "agent killed"})
		if found := checker.Check(records, limits).Findings; len(found) == 0 != allowed {
			t.Errorf("killed after %d ms: %v", killed, found)
		}
	}
}

// If a message shared an interrupted turn with others, its next agent may be given those others, and
// nothing else.
func TestHistoryOfAnInterruptedTurn(t *testing.T) {
	t.Parallel()
	for mode, allowed := range map[string]bool{"collect": true, "queue": false} {
		records := ordinary()
		for i := range records {
			switch r := &records[i]; {
			case r.Kind == history.Turn && r.IDs[0] == "m1":
				r.Seen = []string{"m2"}
			case r.ID == "m2":
				r.Mode = mode
			}
		}
		records = append(records, history.Record{At: ms(9), Since: ms(7), Kind: history.Fault, Name: "worker drained"})
		if found := checker.Check(records, limits).Findings; len(found) == 0 != allowed {
			t.Errorf("mode %s: %v", mode, found)
		}
	}
}

// Of a turn that failed, later agents are given the messages that begin in the first 2 KB of its words.
func TestHistoryOfAFailedTurn(t *testing.T) {
	t.Parallel()
	for size, allowed := range map[int]bool{2047: false, 2048: true} {
		records := ordinary()
		for i := range records {
			if r := &records[i]; r.Kind == history.Entry && r.ID == "m1" {
				r.Text = strings.Repeat("x", size)
			}
		}
		late := entry("late", 1)
		late.Turn, late.Status = "tm1", "failed"
		records = append(records, sent("late", 1)...)
		records = append(records, final("late"), late)
		found := slices.ContainsFunc(checker.Check(records, limits).Findings, func(f checker.Finding) bool { return f.Rule == checker.History })
		if found == allowed {
			t.Errorf("%d bytes before the message that the next agent is not given: a finding %v, want %v", size, found, !allowed)
		}
	}
}

// A model's record names one message of a turn, and mentions the others: all were given to it.
func TestOrderOfMentionedMessages(t *testing.T) {
	t.Parallel()
	records := ordinary()
	early := turn("m2", 8, 9, 0, "m1")
	for i := range early {
		early[i].Via, early[i].Turn = "model", ""
	}
	records = append(records, early...)
	records = append(records, history.Record{At: ms(9), Since: ms(8), Kind: history.Fault, Name: "worker killed"})
	for _, f := range checker.Check(records, limits).Findings {
		t.Error(f)
	}
}

// Only a cap drops messages, and only a command sets one.
func TestDroppedMessages(t *testing.T) {
	t.Parallel()
	for command, allowed := range map[string]bool{"/queue cap:2 drop:old": true, "/queue steer": false} {
		records := ordinary()
		for i := range records {
			if records[i].Kind == history.Final && records[i].ID == "m2" {
				records[i].Status, records[i].Error = "dropped", "dropped: more than 2 messages were waiting"
			}
		}
		records = append(records, history.Record{At: ms(4), Kind: history.Command, Session: session, Name: command})
		if found := checker.Check(records, limits).Findings; len(found) == 0 != allowed {
			t.Errorf("after %s: %v", command, found)
		}
	}
}

// Only /undo and /retry take an accepted message back, and only one that came before.
func TestWithdrawnMessages(t *testing.T) {
	t.Parallel()
	for command, allowed := range map[string]bool{"/undo": true, "/retry": true, "/stop": false} {
		for at, allowed := range map[int64]bool{1: false, 50: allowed} {
			records := ordinary()
			for i := range records {
				if records[i].Kind == history.Final && records[i].ID == "m2" {
					records[i] = history.Record{At: records[i].At, Kind: history.Final, Session: session, ID: "m2", Reason: "unknown"}
				}
			}
			records = append(records, history.Record{At: ms(at), Kind: history.Command, Session: session, Name: command})
			lost := slices.ContainsFunc(checker.Check(records, limits).Findings, func(f checker.Finding) bool { return f.Rule == checker.Lost })
			if lost == allowed {
				t.Errorf("after %s at %d: lost is %v", command, at, lost)
			}
		}
	}
}

// The totals of two runs are those of both, with percentiles of all delays.
func TestTotal(t *testing.T) {
	t.Parallel()
	fault := history.Record{At: ms(9), Since: ms(8), Kind: history.Fault, Name: "worker killed"}
	one, other := checker.Check(ordinary(), limits), checker.Check(append(ordinary(), fault), limits)
	var out strings.Builder
	checker.Total([]checker.Report{one, other}).Print(&out)
	for _, want := range []string{
		"messages: accepted 4, in 2 sessions\n", "outcomes: done 4\n", "turns: exec 4; overlaps 0, again 0; steps: 0\n",
		"| none | 0 | 2 | 24ms | 24ms |\n", "| worker killed | 1 | 2 | 24ms | 24ms |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// Redis' clock jumps ahead, and the sentinel ends under a live owner.
func TestOverlapIsExcusedByTheClock(t *testing.T) {
	t.Parallel()
	records := ordinary()
	for i := range records {
		if records[i].Kind == history.Turn && records[i].IDs[0] == "m2" {
			records[i].Overlap = true
		}
	}
	records = append(records, history.Record{At: ms(9), Since: ms(8), Kind: history.Fault, Name: "Redis' clock ahead"})
	for _, f := range checker.Check(records, limits).Findings {
		t.Error(f)
	}
}

// A message that was accepted just before its primary was killed is counted as lost, and is no
// finding. One that was accepted long before is.
func TestLossesOfAKilledPrimary(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"primary killed", history.PrimaryReplaced} {
		for after, loss := range map[int64]bool{50: true, 60_000: false} {
			records := slices.DeleteFunc(ordinary(), func(r history.Record) bool { return r.Kind == history.Entry && r.ID == "m2" })
			records = append(records, history.Record{At: ms(after), Since: ms(after), Kind: history.Fault, Name: name})
			report := checker.Check(records, limits)
			if len(report.Losses) == 1 != loss || len(report.Findings) == 1 == loss {
				t.Errorf("%s after %d ms: losses %v, findings %v", name, after, report.Losses, report.Findings)
			}
		}
	}
}

package reference

import (
	"cmp"
	"fmt"
	"slices"
)

// Claim is a worker's claim, while the worker believes in it. It counts only with the sentinel and
// for the running turn.
type Claim struct {
	Worker int
	token  int
	Turn   ClaimedTurn

	parts     []string // the turn's messages, the steered ones last
	announced bool
}

// ClaimedTurn is the result of a claim or a finish that took a turn.
type ClaimedTurn struct {
	Number       int
	TranscriptID string
	Messages     []string
	Attempt      int
	Entries      int
	Reset        string
	Resume       string
	Dropped      []string
	Omitted      int // older ones
	Again        int // how often its first message was redelivered
	Throttled    int // how often it has waited for a provider
	Agent        string
	Ends         string // not "": it was begun only to end like this

	noted   int
	carries bool // there is a journal of an earlier run
}

// unservedPause is when a session is claimed again whose agent a worker does not run, ms.
const unservedPause = 15_000

// Claim takes the sentinel and goes on with the turn that has not ended, or takes the next one, or returns nil. A
// worker runs only some agents, those in serves, and leaves the others' sessions alone; but it ends any turn.
// again is not 0 if the session must be claimed again at that time, in ms: see [Session.Again].
func (s *Session) Claim(worker int, serves []string) (h *Claim, again int64) {
	r := &s.Run
	if s.Owner != 0 {
		return nil, 0
	}
	turn, ends, agent := r.Phase != Idle, s.endsAs(), cmp.Or(s.Agent, s.Config.Agent)
	if turn {
		agent = cmp.Or(r.Agent, agent)
	}
	if ends == "" {
		switch {
		case !slices.Contains(serves, agent) && s.hasMessages():
			s.Index.later(s.Now + unservedPause)
			return nil, 0
		case r.Phase == Parked && r.Until > s.Now:
			s.Index.later(r.Until)
			return nil, 0
		case s.Paused:
			return nil, 0
		}
	}
	if !turn {
		return s.claimNext(worker, agent)
	}
	if r.Ending != "" && r.Phase != Parked && s.confirmed() {
		if !r.Doubted {
			s.Owner, r.Doubted = inDoubt, true
			return nil, 0
		}
		s.endUnwritten()
		return nil, s.Now
	}
	suspends := s.Resume.Suspended
	if ends == "" && r.Phase != Parked {
		if s.final() && !r.Doubted {
			s.Owner, r.Doubted = inDoubt, true
			return nil, 0
		}
		var apart bool
		if ends, suspends, apart = s.death(); apart {
			return nil, s.Now
		}
	}
	s.joinDue()
	if r.Phase != Parked {
		s.recover()
	}
	reset := ""
	switch {
	case ends != "":
	case suspends:
		sid := r.Rotated
		if sid == "" {
			sid = s.newTranscriptID()
		}
		reset, r.Rotated = s.suspend(sid), ""
	case !r.Announced:
		reset = r.Reset
	}
	if s.TranscriptID != r.TranscriptID && ends == "" && suspends {
		r.TranscriptID, r.Entries = s.TranscriptID, 0
	}
	was := *r
	s.starts(r.IDs)
	r.Steer, r.Rotated, r.Agent, r.Ending, r.Reset, r.Throttled = was.Steer, was.Rotated, was.Agent, ends, reset, was.Throttled
	return s.claimed(worker, agent), 0
}

// claimNext takes the next turn.
func (s *Session) claimNext(worker int, agent string) (h *Claim, again int64) {
	moves := s.dueNow()
	s.joinDue()
	if len(s.Line) > 0 && s.Messages[s.Line[0]].Long {
		// First due messages join the queue. The next claim then continues.
		if moves {
			return nil, s.nextAt()
		}
		s.archiveLong()
		return nil, s.Now
	}
	group, wait := s.next()
	if wait > 0 {
		s.Index.later(wait)
	}
	if len(group) == 0 {
		return nil, 0
	}
	reset := ""
	if s.Resume.Suspended {
		reset = s.suspend(s.newTranscriptID())
	}
	if s.TranscriptID == "" {
		s.TranscriptID = s.newTranscriptID()
	}
	if s.TranscriptID != s.Run.TranscriptID {
		s.Run.TranscriptID, s.Run.Entries = s.TranscriptID, 0
	}
	s.take(group)
	s.Run.Reset, s.Journal = reset, nil
	return s.claimed(worker, agent), 0
}

// claimed makes the claim of a worker that has taken a turn.
func (s *Session) claimed(worker int, agent string) *Claim {
	s.tokens++
	s.Owner = s.tokens
	s.Run.Said = s.Config.Workers[worker]
	if s.Run.Agent == "" {
		s.Agent = agent
	}
	s.used()
	h := &Claim{Worker: worker, token: s.Owner, parts: slices.Clone(s.Run.IDs)}
	h.Turn = s.told()
	h.Turn.Agent, h.Turn.Reset, h.Turn.Ends, h.Turn.carries = agent, s.Run.Reset, s.Run.Ending, s.Journal != nil
	if s.Resume.Pending && s.Run.Ending == "" {
		h.Turn.Resume = s.Resume.Reason
	}
	return h
}

// hasMessages reports whether a message has not ended.
func (s *Session) hasMessages() bool {
	for _, m := range s.Messages {
		if m.State == Pending || m.State == Active || m.State == Scheduled {
			return true
		}
	}
	return false
}

// Again wakes a session that must be claimed again.
func (s *Session) Again(at int64) { s.Index.wake(at, s.Now) }

// suspend begins another transcript for a suspended session. Of a turn's work only steps stay.
func (s *Session) suspend(transcriptID string) (reset string) {
	s.TranscriptID = transcriptID
	s.Title, s.TitleBy, s.unsaid = "", "", unsaid{}
	if s.Journal != nil && !s.Journal.Steps {
		s.Journal = nil
	}
	s.Resume = Resume{Interruptions: s.Resume.atLarge.interruptions, runs: s.Resume.atLarge.runs}
	s.forgetNotes()
	return "suspended"
}

// told is the worker's view of the turn that it just took.
func (s *Session) told() ClaimedTurn {
	head := s.Messages[s.Run.IDs[0]]
	dropped, omitted := s.newestNotes()
	return ClaimedTurn{
		Number: s.Run.Fence, TranscriptID: s.Run.TranscriptID, Messages: slices.Clone(s.Run.IDs),
		Attempt: head.Failures + 1, Entries: s.Run.Entries, Dropped: dropped, Omitted: omitted,
		Again: head.Redelivered, Throttled: s.Run.Throttled, Agent: s.Agent, noted: s.noted,
	}
}

// Owns reports whether the claim has the sentinel and its turn is the running one.
func (s *Session) Owns(h *Claim) bool { return s.Owner == h.token && s.Run.Fence == h.Turn.Number }

// Asked is the strongest request to the running turn: stop, rollback, interrupt or nothing, in this
// order.
func (s *Session) Asked() string {
	switch {
	case s.Run.Stop:
		return "stop"
	case s.Run.Rollback:
		return Rollback
	case s.Run.Interrupt:
		return Interrupt
	}
	return ""
}

// Further results of an owner's moves.
const (
	OK   = "ok"
	Lost = "lost"
)

// Promote moves a turn from starting to running, unless its end was requested.
func (s *Session) Promote(h *Claim) string {
	switch {
	case s.Config.Immediate:
		return OK
	case !s.Owns(h):
		return Lost
	case s.Asked() != "":
		return s.Asked()
	case s.Run.NoStart:
		return "drain"
	}
	s.Run.Phase, s.Run.Begun = Running, true
	if s.Run.Steer {
		return "ok, steer"
	}
	return OK
}

// Renew extends the sentinel and returns the requests that the owner may have missed.
func (s *Session) Renew(h *Claim) string {
	if !s.Owns(h) {
		return Lost
	}
	s.Run.Begun = true
	s.Index.Owned = true
	result := fmt.Sprintf("asked %q, %d wait, steer %v", s.Asked(), len(s.Line), s.Run.Steer)
	if s.Run.Decided > 0 {
		result += fmt.Sprintf(", answered %d %s", s.Run.Decided, s.Run.Decision)
	}
	return result
}

// Steer makes the steered messages part of the turn, in the order of the queue and as many as there
// is room for, unless the turn must end. It returns those that the owner does not know yet.
func (s *Session) Steer(h *Claim) string {
	if !s.Owns(h) {
		return Lost
	}
	var taken []string
	for _, id := range slices.Clone(s.Line) {
		i := slices.IndexFunc(s.FollowUps, func(f FollowUp) bool { return f.ID == id })
		if i < 0 || s.Messages[id].Long || s.Asked() != "" || s.FollowUps[i].Mode != Steer || len(s.Run.IDs)+len(taken) >= s.Config.TurnMessages {
			continue
		}
		s.leaves(id)
		s.Messages[id].State, s.Messages[id].Steered, s.FollowUps[i].State = Active, true, "steered"
		taken = append(taken, id)
	}
	s.Run.IDs = append(s.Run.IDs, taken...)
	h.parts = append(h.parts, taken...)
	s.Run.Steer = false
	return fmt.Sprint("steered ", taken)
}

// Checkpoint stores the turn's entries so far, and the end of a step if it has one.
func (s *Session) Checkpoint(h *Claim, entries []Entry, step bool) string {
	if !s.Owns(h) {
		return Lost
	}
	p := &Journal{Turn: h.Turn.Number, Messages: slices.Clone(h.parts), Entries: entries, Steps: step, first: s.Messages[h.parts[0]]}
	if old := s.Journal; old != nil {
		p.Steps, p.Progress = step || old.Steps, old.Progress
		p.waits, p.number, p.given, p.values = old.waits, old.number, old.given, old.values
	}
	if step {
		p.Progress = h.Turn.Number
	}
	s.Journal = p
	s.Used, s.Run.Begun = s.Now, true
	return OK
}

// Emit appends an event, after the turn's start if that has no event yet.
func (s *Session) Emit(h *Claim, text string) string {
	start := h.start()
	if !s.Owns(h) {
		return Lost
	}
	if start != "" {
		s.tell(start)
	}
	s.tell("text " + text)
	s.Run.Announced, s.Run.Begun = true, true
	return OK
}

// start is the event of the turn's start, on the first call.
func (h *Claim) start() string {
	if h.announced {
		return ""
	}
	h.announced = true
	return started(h.Turn.Number, h.Turn.TranscriptID, h.Turn.Messages)
}

func started(turn int, transcriptID string, messages []string) string {
	return Started(label(turn), transcriptID, messages)
}

// Steered are the messages of the turn that joined it while it ran.
func (h *Claim) Steered() []string { return h.parts[len(h.Turn.Messages):] }

// StoreState stores the agent's state. "" deletes it.
func (s *Session) StoreState(h *Claim, data string) string {
	if !s.Owns(h) {
		return Lost
	}
	s.State = data
	return OK
}

// Ask stores the agent's question. Its number is one that the session never had.
func (s *Session) Ask(h *Claim) string {
	if !s.Owns(h) {
		return Lost
	}
	s.question.number++
	s.question.at = s.Now
	s.Run.Question, s.Run.LastAsked, s.Run.value = s.question.number, s.question.number, ""
	s.asks(s.question.number)
	return fmt.Sprint(OK, " ", s.question.number)
}

// AskFor is Ask for a question with a key: in all runs of the turn it has one number, and the first decision.
// value: it waits for a program, and nobody is notified.
func (s *Session) AskFor(h *Claim, key string, value bool) string {
	if !s.Owns(h) {
		return Lost
	}
	p, q := s.Journal, &s.question
	if p != nil && p.given[key] != "" {
		s.Run.LastAsked = 0 // this one was not put again, so a Withdraw has no question
		return OK + " " + p.given[key]
	}
	again := p != nil && p.waits == key && p.number == q.number
	if !again {
		q.number, q.at = q.number+1, s.Now
	}
	switch {
	case again && s.asked != nil: // it is still open
	case value:
		s.closeQuestion()
	default:
		s.asks(q.number)
	}
	s.Run.Question, s.Run.LastAsked, s.Run.value = q.number, q.number, ""
	if value {
		s.Run.value = key
	}
	if p != nil {
		p.waits, p.number = key, q.number
		if p.given == nil {
			p.given, p.values = map[string]string{}, map[string]int{}
		}
		if value {
			p.values[key] = q.number
		}
	}
	return fmt.Sprint(OK, " ", q.number)
}

// decided keeps a decision for the turn's later runs.
func (s *Session) decided(decision string) {
	if p := s.Journal; p != nil && p.waits != "" && p.number == s.Run.Question {
		p.given[p.waits] = fmt.Sprint(s.Run.Question, " ", decision)
	}
}

// Deny withdraws the question with this key, which was asked just now, and denies it unless it is decided.
func (s *Session) Deny(h *Claim) string {
	result := s.Withdraw(h)
	if result == OK+" " && s.Journal != nil {
		s.Run.Question = s.question.number
		s.decided("deny")
		s.Run.Question = 0
	}
	return result
}

// Give gives a program's value to the turn that waits for it, or has waited.
func (s *Session) Give(key, value string) string {
	p := s.Journal
	if p == nil || p.values[key] == 0 || s.Asked() != "" {
		return "no turn waits for this value"
	}
	given := fmt.Sprint(p.values[key], " ", value)
	if was := p.given[key]; was != "" && was != given {
		return "another value was given before"
	}
	p.given[key] = given
	open := s.Run.Question == p.values[key]
	if open {
		s.Run.Decided, s.Run.Decision = s.Run.Question, "value"
	}
	return s.goesOn(open && s.Run.Phase == Parked)
}

// goesOn lets a parked turn go on.
func (s *Session) goesOn(parked bool) string {
	if parked {
		s.Run.Until = 0
		s.announce()
	}
	return OK
}

// Withdraw ends the question, and returns the decision that came before.
func (s *Session) Withdraw(h *Claim) string {
	if !s.Owns(h) {
		return Lost
	}
	s.Run.Question = 0
	s.closeQuestion()
	if s.Run.LastAsked != 0 && s.Run.Decided == s.Run.LastAsked {
		return OK + " " + s.Run.Decision
	}
	return OK + " "
}

// justAsked is how long after a question, in ms, a decision without a number may be meant for the
// one before.
const justAsked = 3000

// Decide records the user's decision on the question with that number. 0: the open question, unless
// the user may still see another one.
func (s *Session) Decide(number int, decision string) string {
	asked, parked := s.Run.Question, s.Run.Phase == Parked && s.Asked() == ""
	switch {
	case s.Owner <= 0 && !parked || asked == 0 || s.Run.value != "":
		return "no question is open"
	case number != 0 && number != asked:
		return fmt.Sprintf("another question is open: %d", asked)
	case s.Run.Decided == asked:
		return "the question was decided before"
	case number == 0 && asked > 1 && s.Now-s.question.at < justAsked:
		return fmt.Sprintf("the question was asked just now: %d", asked)
	}
	s.Run.Decided, s.Run.Decision = asked, decision
	s.decided(decision)
	s.closeQuestion()
	s.goesOn(parked)
	return fmt.Sprintf("ok %d", asked)
}

// DecideOf is Decide for a question of one turn.
func (s *Session) DecideOf(turn, number int, decision string) string {
	parked := s.Run.Phase == Parked && s.Asked() == ""
	if asked := s.Run.Question; (s.Owner > 0 || parked) && asked != 0 && s.Run.value == "" && turn != s.Run.Fence {
		return fmt.Sprintf("another question is open: %d", asked)
	}
	return s.Decide(number, decision)
}

// ProposeTitle sets the agent's title. A user's title stays, and a turn of a replaced transcript cannot
// set a title for the new one.
func (s *Session) ProposeTitle(h *Claim, title string) {
	if s.Owns(h) && s.TitleBy != "user" && s.Run.Rotated == "" {
		s.Title, s.TitleBy = title, "agent"
		s.used()
	}
}

// Dismiss archives one of several messages of the turn, which continues without it.
func (s *Session) Dismiss(h *Claim, id, why string) string {
	if !s.Owns(h) {
		return Lost
	}
	not := func(other string) bool { return other == id }
	s.Run.IDs = slices.DeleteFunc(s.Run.IDs, not)
	h.parts = slices.DeleteFunc(h.parts, not)
	h.Turn.Messages = slices.DeleteFunc(h.Turn.Messages, not)
	s.archive(id, "expired", why)
	s.ends("expired", 0, why, s.Messages[id])
	return OK
}

// Past is the history before the turn: the transcript, the entries of an earlier run of the same message,
// and the texts of dropped messages, if they still exist.
func (s *Session) Past(h *Claim) string {
	journal := ""
	if p := s.Journal; p != nil && h.Turn.carries && s.Run.Fence == h.Turn.Number {
		journal = ", journal of " + label(p.Turn)
	}
	var dropped []string
	for _, id := range h.Turn.Dropped {
		if m := s.Messages[id]; m != nil && m.Text != "" {
			dropped = append(dropped, m.Text)
		}
	}
	return fmt.Sprintf("%d entries%s, dropped %v", len(s.Transcripts[h.Turn.TranscriptID]), journal, dropped)
}

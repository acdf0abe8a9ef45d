package board

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/text/printable"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const (
	// entriesShown is how many entries of the transcript a page has.
	entriesShown = 60

	// lineShown is how many waiting and delayed messages a page has.
	lineShown = 40

	// deliveriesShown is how many deliveries a page has.
	deliveriesShown = 20

	// auditShown is how many entries of the audit a page has.
	auditShown = 20

	// deadShown is how many dead letters a page has, the last ones.
	deadShown = 10
)

// sessionPage is a session.
type sessionPage struct {
	frame
	gateway.SessionView
	Known   bool
	Link    string
	Entries []entry
	Older   string // the link to older entries, "" if there are none
	Newest  string // the link to the newest entries, "" if these are the newest
	Live    live
	Asked   []asked // TurnMessages
	Line    []admin.QueuedMessage
	Letters []admin.DeadLetter

	Receivers      []receiver // that do not take the session's deliveries
	Deliveries     []delivery
	MoreDeliveries bool               // than these
	Audit          []admin.AuditEntry // the newest first, for operators
	Used           *session.Usage     // by the turns of Entries and the running one
	May            buttons

	After  string // the last event that the page shows
	Stream string // the URL of the events, "" on a page of older entries

	Problem *gateway.Problem // why the last button did nothing
	Done    string           // the result of the last button
	Draft   string           // the text that was not sent
	NextID  string           // of the message in the form: sent twice, it is one message
}

// asked is a message of the running turn.
type asked struct {
	gateway.TurnMessage
	Said words // Text
}

// buttons says which buttons the page has, and whether they have an effect now. A button that the
// token does not allow is not there.
type buttons struct {
	Send, Control, Operate, Decide bool
	Stop, Undo, Rerun              bool // they would have an effect now
}

func (b *Board) getSession(w http.ResponseWriter, v *visit) {
	p := sessionPage{Done: told(v.URL.Query())}
	b.show(w, v, http.StatusOK, &p)
}

// show sends the page of the session. The caller has set its problem, draft and so on.
func (b *Board) show(w http.ResponseWriter, v *visit, status int, p *sessionPage) {
	err := session.ValidateKey(v.session)
	if err == nil {
		err = b.tryShow(w, v, status, p)
	}
	if err != nil {
		b.fail(w, v.Request, v.token, err)
	}
}

// tryShow sends the page, which counts as one that reads much, and then by its size.
func (b *Board) tryShow(w http.ResponseWriter, v *visit, status int, p *sessionPage) error {
	done, err := b.gateway.Reading(v.work, v.token)
	if err != nil {
		return err
	}
	defer done()
	if err := b.read(v, p); err != nil {
		return err
	}
	if !p.Known && status == http.StatusOK {
		status = http.StatusNotFound
	}
	page, ok := b.made(w, v.Request, "session", p)
	if !ok {
		return nil
	}
	done()
	sent, err := b.gateway.Sending(v.token, page.Len())
	if err != nil {
		return err
	}
	defer sent()
	send(w, v.Request, status, page)
	return nil
}

// read reads the page's content, part by part. Events that arrive meanwhile are later than p.After,
// so the page's script reads it again.
func (b *Board) read(v *visit, p *sessionPage) error {
	key, operator := v.session, b.deps.Admin
	operated := operator.Session(key)
	p.frame, p.Link, p.NextID = b.frame(v.token, key), sessionLink(key), turnstile.NewMessageID()
	var err error
	if p.After, err = b.gateway.Store().LastEventID(v.work, key); err != nil {
		return err
	}
	p.SessionView, err = gateway.ReadSession(v.work, operator.Session(key))
	switch {
	case errors.Is(err, gateway.ErrUnknown):
		p.SessionView.Session = key
	case err != nil:
		return err
	default:
		p.Known = true
	}
	p.Live = liveOf(p.SessionView)
	if n := len(p.Events); n > 0 {
		p.After = p.Events[n-1].ID // read after LastEventID, so it is not older
	}
	if err := b.readEntries(v, p); err != nil {
		return err
	}
	if p.Line, err = b.readLine(v.work, p.SessionView); err != nil {
		return err
	}
	if p.Archived > 0 {
		if p.Letters, err = operated.LastDeadLetters(v.work, deadShown); err != nil {
			return err
		}
	}
	p.render()
	p.Used = used(p.Entries, p.Events)
	if !v.token.May(gateway.Operate) {
		p.hideDetails()
	} else if p.Audit, err = operated.Audit(v.work); err != nil {
		return err
	}
	slices.Reverse(p.Audit)
	p.Audit = p.Audit[:min(len(p.Audit), auditShown)]
	if err := b.readDeliveries(v, p); err != nil {
		return err
	}
	if p.Newest == "" {
		p.Stream = "/v1/sessions/" + url.PathEscape(key) + "/events"
	}
	p.May, err = b.buttons(v, p)
	return err
}

// hideDetails removes the details for operators: an agent's error may contain anything.
func (p *sessionPage) hideDetails() {
	for i := range p.Line {
		p.Line[i].Error = ""
	}
	for i := range p.Letters {
		p.Letters[i].Outcome.Detail = ""
	}
}

// readEntries reads a page of the transcript.
func (b *Board) readEntries(v *visit, p *sessionPage) error {
	before, id := int64(0), p.TranscriptID
	if text := v.URL.Query().Get("before"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return gateway.Fail(gateway.InvalidRequest, "before is no number of entries.")
		}
		before, p.Newest = n, p.Link
		id = v.URL.Query().Get("id")
		if err := session.ValidateID(id); err != nil {
			return err
		}
	}
	if id == "" {
		return nil
	}
	page, err := b.deps.Client.Session(v.session).Transcript(v.work, turnstile.TranscriptQuery{ID: id, Before: before, Limit: entriesShown})
	if err != nil {
		return err
	}
	p.Entries = shownEntries(page.Entries)
	if page.Before > 0 {
		p.Older = p.Link + "?" + url.Values{"before": {strconv.FormatInt(page.Before, 10)}, "id": {id}}.Encode()
	}
	return nil
}

// readLine reads the queue, after the messages that were handed to the running turn's agent.
func (b *Board) readLine(ctx context.Context, view gateway.SessionView) ([]admin.QueuedMessage, error) {
	list := handed(view)
	most := len(list) + lineShown
	for m, err := range b.deps.Admin.Session(view.Session).Queue(ctx) {
		if err != nil {
			return nil, err
		}
		if m.State != session.MessageSteered {
			m.Message = session.Message{ID: m.ID, Meta: m.Meta, Text: printable.Head(m.Text, printable.HeadMost)}
			list = append(list, m)
		}
		if len(list) == most {
			break
		}
	}
	return list, nil
}

// handed returns the steered messages that are not shown with the running turn.
func handed(view gateway.SessionView) (list []admin.QueuedMessage) {
	for _, f := range view.Followups {
		if f.State == string(session.MessageSteered) && !slices.Contains(view.Messages, f.ID) {
			list = append(list, admin.QueuedMessage{Message: session.Message{ID: f.ID, Text: f.Text}, Mode: f.Mode, State: session.MessageSteered})
		}
	}
	return list
}

// buttons returns the visitor's buttons.
func (b *Board) buttons(v *visit, p *sessionPage) (buttons, error) {
	may := buttons{
		Send: v.token.May(gateway.Send), Control: v.token.May(gateway.Control), Operate: v.token.May(gateway.Operate),
		Stop: p.Phase != "" && p.Phase != session.PhaseIdle || p.Pending > 0,
		Undo: len(p.Entries) > 0 && p.Phase == session.PhaseIdle, Rerun: p.Archived > 0,
	}
	if p.Question == nil {
		return may, nil
	}
	switch err := b.gateway.MayDecide(v.work, v.token, v.session); gateway.ProblemOf(err).Code {
	case gateway.Forbidden, gateway.NoQuestion, gateway.OtherQuestion:
	default:
		may.Decide = err == nil
		return may, err
	}
	return may, nil
}

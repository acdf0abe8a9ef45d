package board

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// action is the action of a button on a session's page.
type action struct {
	may gateway.Permission // "" if do checks it

	// do returns a number for the page that follows.
	do func(b *Board, v *visit) (n int, err error)

	// done is that page's message. It may have a %d.
	done string
}

// actions are the buttons' actions, by the last part of their paths.
var actions = map[string]action{
	"send":    {gateway.Send, (*Board).send, "The message was sent."},
	"stop":    {gateway.Control, (*Board).stop, "The turn ends. %d waiting messages became dead letters."},
	"approve": {"", (*Board).approve, "Approved."},
	"always":  {"", (*Board).always, "Approved, as will be everything like it."},
	"deny":    {"", (*Board).deny, "Denied."},
	"retry":   {gateway.Control, (*Board).retry, "The last turn was removed, and its message runs again."},
	"undo":    {gateway.Control, (*Board).undo, "The last turn was removed: %d entries."},
	"rerun":   {gateway.Control, (*Board).rerun, "Dead letters requeued: %d."},
}

// act carries out an action, and leads back to the session. A failure shows the session with the
// reason, and with the text that was not sent.
func (b *Board) act(a action) func(http.ResponseWriter, *visit) {
	return func(w http.ResponseWriter, v *visit) {
		n, err := 0, session.ValidateKey(v.session)
		if err == nil {
			err = v.formErr
		}
		if err == nil {
			n, err = a.do(b, v)
		}
		if err != nil {
			problem := b.problem(v.Request, err)
			b.show(w, v, problem.Status, &sessionPage{Problem: problem, Draft: v.PostForm.Get("text")})
			return
		}
		name := v.URL.Path[strings.LastIndexByte(v.URL.Path, '/')+1:]
		if name != "send" {
			b.gateway.Audit(v.Request, v.token, "board "+name, v.session, "")
		}
		http.Redirect(w, v.Request, sessionLink(v.session)+"?"+url.Values{"done": {name}, "n": {strconv.Itoa(n)}}.Encode(), http.StatusSeeOther)
	}
}

// told is the page's message about the action in its query. The query has no free text, since
// anybody may write a link.
func told(q url.Values) string {
	a, ok := actions[q.Get("done")]
	n, err := strconv.Atoi(q.Get("n"))
	switch {
	case !ok || err != nil:
		return ""
	case strings.Contains(a.done, "%d"):
		return fmt.Sprintf(a.done, n)
	}
	return a.done
}

// senderMeta is the key of the sender in a message's meta, as in the gateway.
const senderMeta = "sender"

func (b *Board) send(v *visit) (int, error) {
	text := strings.ReplaceAll(v.PostForm.Get("text"), "\r\n", "\n") // forms have CRLF
	_, err := b.deps.Client.Session(v.session).Send(v.work, turnstile.Message{
		ID: v.PostForm.Get("id"), Text: text, Meta: map[string]string{senderMeta: v.token.Sender("")},
	})
	return 0, err
}

func (b *Board) stop(v *visit) (int, error) {
	s, err := b.gateway.Chat(v.token, v.session, "").Stop(v.work)
	return s.Dropped, err
}

func (b *Board) approve(v *visit) (int, error) { return 0, b.decide(v, session.Allow) }
func (b *Board) always(v *visit) (int, error)  { return 0, b.decide(v, session.Always) }
func (b *Board) deny(v *visit) (int, error)    { return 0, b.decide(v, session.Deny) }

// decide decides the question that the form names, if it is the open one.
func (b *Board) decide(v *visit, d session.Decision) error {
	question := v.PostForm.Get("question")
	if !strings.Contains(question, ".") {
		return gateway.Fail(gateway.InvalidRequest, "question is no id of one.")
	}
	_, err := b.gateway.Decide(v.work, v.token, v.session, "", question, d)
	return err
}

func (b *Board) retry(v *visit) (int, error) {
	_, err := b.gateway.Chat(v.token, v.session, "").Retry(v.work)
	return 0, err
}

func (b *Board) undo(v *visit) (int, error) {
	u, err := b.gateway.Chat(v.token, v.session, "").Undo(v.work)
	return u.Entries, err
}

// rerun reruns the dead letter that the form names, or all of them.
func (b *Board) rerun(v *visit) (int, error) {
	return b.deps.Admin.Session(v.session).As(v.token.Name).Rerun(v.work, cmp.Or(v.PostForm.Get("letter"), admin.All))
}

// forgetPage asks for a confirmation.
type forgetPage struct {
	frame
	Session string
	Link    string
	Problem *gateway.Problem
	Owing   *owing // undelivered outcomes, if they are the problem
}

// owing counts outcomes: still to come of unfinished messages, and stored.
type owing struct{ Owed, Undelivered int }

func (b *Board) getForget(w http.ResponseWriter, v *visit) {
	b.confirm(w, v, http.StatusOK, forgetPage{})
}

func (b *Board) confirm(w http.ResponseWriter, v *visit, status int, p forgetPage) {
	p.frame, p.Session, p.Link = b.frame(v.token, "Forget "+v.session), v.session, sessionLink(v.session)
	b.render(w, v.Request, status, "forget", p)
}

// postForget forgets a session. The form has the session's key as a confirmation. Undelivered
// outcomes need a second one.
func (b *Board) postForget(w http.ResponseWriter, v *visit) {
	err := v.formErr
	if err == nil && v.PostForm.Get("session") != v.session {
		err = gateway.Fail(gateway.InvalidRequest, "The form names another session.")
	}
	if err == nil {
		var options []admin.EraseOption
		if v.PostForm.Get("undelivered") == "drop" {
			options = append(options, admin.EraseUndelivered())
		}
		err = b.deps.Admin.Session(v.session).Erase(v.work, options...)
	}
	var p forgetPage
	if errors.Is(err, session.ErrUndelivered) {
		n, failed := b.deps.Admin.Session(v.session).Undelivered(v.work)
		if failed == nil {
			p.Owing = &owing{n.Owed, n.Waiting + n.GivenUp}
		}
	}
	switch {
	case err == nil:
		b.gateway.Audit(v.Request, v.token, "board forget", v.session, "")
		http.Redirect(w, v.Request, "/board/", http.StatusSeeOther)
	case p.Owing != nil:
		b.confirm(w, v, http.StatusConflict, p)
	default:
		p.Problem = b.problem(v.Request, err)
		b.confirm(w, v, p.Problem.Status, p)
	}
}

package gateway

import (
	"net/http"

	"turnstile"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// The commands of a session: each is one call of a client.

// chat is the request's session, which the request's token changes.
func (r *Request) chat() *turnstile.Session { return r.gateway.Chat(r.Token, r.Session, "") }

// refuseKey fails if the request has an Idempotency-Key: its route would act again for the same key.
func refuseKey(r *Request, command string) error {
	if len(r.Header.Values("Idempotency-Key")) == 0 {
		return nil
	}
	return Fail(InvalidRequest, `This route takes no Idempotency-Key. Send {"text": %q, "commands": true} as a message with the key.`, command)
}

func (g *Gateway) postStop(w http.ResponseWriter, r *Request) error {
	if err := refuseKey(r, "/stop"); err != nil {
		return err
	}
	if err := r.Decode(w, &struct{}{}, false); err != nil {
		return err
	}
	s, err := r.chat().Stop(r.Work())
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Phase   session.Phase `json:"phase"`
		Fence   int64         `json:"fence"`
		Dropped int           `json:"dropped"`
	}{s.Phase, s.Fence, s.Dropped})
}

// undone is the turn that undo or retry removed from the transcript.
type undone struct {
	Turn    string `json:"turn"`
	Text    string `json:"text"`
	Entries int    `json:"entries"`
}

func (g *Gateway) postUndo(w http.ResponseWriter, r *Request) error {
	return g.retract(w, r, false)
}

func (g *Gateway) postRetry(w http.ResponseWriter, r *Request) error {
	return g.retract(w, r, true)
}

func (g *Gateway) retract(w http.ResponseWriter, r *Request, again bool) error {
	chat := r.chat()
	call, command := chat.Undo, "/undo"
	if again {
		call, command = chat.Retry, "/retry"
	}
	if err := refuseKey(r, command); err != nil {
		return err
	}
	if err := r.Decode(w, &struct{}{}, false); err != nil {
		return err
	}
	u, err := call(r.Work())
	if err != nil {
		return err
	}
	if !r.Token.May(Read) {
		u.Text = ""
	}
	return Respond(w, http.StatusOK, undone{u.Turn, u.Text, u.Entries})
}

// postNew starts a new transcript. With the ID of the transcript that it replaces, it may be
// repeated.
func (g *Gateway) postRotate(w http.ResponseWriter, r *Request) error {
	var body struct {
		TranscriptID string `json:"session_id"`
		Agent        string `json:"agent"` // of the new transcript
	}
	if err := r.Decode(w, &body, false); err != nil {
		return err
	}
	if err := r.Token.mayName(body.Agent); err != nil {
		return err
	}
	if body.TranscriptID == "" {
		if err := refuseKey(r, "/new"); err != nil {
			return err
		}
	}
	id, err := r.chat().NewTranscript(r.Work(), turnstile.TranscriptConfig{Replaces: body.TranscriptID, Agent: body.Agent})
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		TranscriptID string `json:"session_id"`
	}{id})
}

// rerun is how many dead letters are in the queue again.
type rerun struct {
	Session string `json:"session"`
	Rerun   int    `json:"rerun"`
}

func (g *Gateway) postResume(w http.ResponseWriter, r *Request) error {
	if err := refuseKey(r, "/resume"); err != nil {
		return err
	}
	if err := r.Decode(w, &struct{}{}, false); err != nil {
		return err
	}
	n, err := g.deps.Admin.Session(r.Session).As(r.Token.Name).Rerun(r.Work(), admin.All)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, rerun{r.Session, n})
}

func (g *Gateway) postQueue(w http.ResponseWriter, r *Request) error {
	var s session.QueueSettings
	if err := r.Decode(w, &s, true); err != nil {
		return err
	}
	if s != (session.QueueSettings{}) {
		if _, err := wire.ParseQueueSettings(s.String()); err != nil { // the rules of /queue
			return err
		}
	}
	if err := r.chat().SetQueue(r.Work(), s); err != nil {
		return err
	}
	return Respond(w, http.StatusOK, s)
}

// titled is a transcript's title.
type titled struct {
	Title string `json:"title"`
}

func (g *Gateway) postTitle(w http.ResponseWriter, r *Request) error {
	var t titled
	if err := r.Decode(w, &t, true); err != nil {
		return err
	}
	if err := r.chat().SetTitle(r.Work(), t.Title); err != nil {
		return err
	}
	return Respond(w, http.StatusOK, t)
}

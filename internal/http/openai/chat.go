package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/frame"
	"turnstile/pkg/session"
)

// chatBody is the body of a chat completion, with the supported fields.
type chatBody struct {
	inSession bool // which has what is before the assistant's last message

	Model    string            `json:"model"`
	Messages []chatMessage     `json:"messages"`
	Metadata map[string]string `json:"metadata"`
	Stream   bool              `json:"stream"`
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`

	N         int               `json:"n"`
	Tools     []json.RawMessage `json:"tools"`
	Functions []json.RawMessage `json:"functions"`
	Format    struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Refusal string          `json:"refusal"`
	Calls   []chatCall      `json:"tool_calls"`
	CallID  string          `json:"tool_call_id"`
}

// chatCall is a call of a client's function. Index is its place in a stream.
type chatCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

const (
	// sessionHeader and sessionMetadata name the session of a chat.
	sessionHeader   = "X-Turnstile-Session"
	sessionMetadata = "session"
)

// check refuses parameters that the agent could not honour. free: clients may instruct it.
func (b chatBody) check(free bool) error {
	switch {
	case len(b.Messages) == 0:
		return refuse("messages", "There are no messages.")
	case b.N > 1:
		return refuse("n", "There is one choice.")
	case len(b.Functions) > 0:
		return refuse("functions", ownTools)
	case free:
	case len(b.Tools) > 0:
		return refuse("tools", ownTools)
	case b.Format.Type != "" && b.Format.Type != "text":
		return refuse("response_format", "The agent replies with text.")
	}
	return checkMetadata(b.Metadata)
}

// statements reads the messages. free: clients may instruct the agent, so there may be results of functions.
// Of what a session has already, pictures among it, only the roles are read, and the results since the user's words.
func (b chatBody) statements(free bool) (all []statement, err error) {
	known, words, user := 0, 0, 0
	for i, m := range b.Messages {
		switch {
		case b.inSession && m.Role == roleAssistant:
			known, words = i+1, user
		case m.Role == roleUser:
			user = i
		}
	}
	for i, m := range b.Messages {
		param := fmt.Sprintf("messages[%d]", i)
		if !knownRoles[m.Role] || m.Role == roleTool && !free {
			return nil, refuse(param, "The role %.100q is not supported: the agent uses its tools itself.", m.Role)
		}
		s := statement{role: m.Role, call: m.CallID}
		if roleLabels[m.Role] != "System" && i < known && (m.Role != roleTool || i < words) {
			if said(m.Content) {
				s.text = notRead
			}
			all = append(all, s)
			continue
		}
		switch {
		case m.Role == roleAssistant && !said(m.Content) && m.Refusal != "":
			s.text = m.Refusal
		case said(m.Content) || !free:
			if s.text, s.files, err = parseContent(param, m.Content); err != nil {
				return nil, err
			}
		}
		for _, c := range m.Calls {
			s.calls = append(s.calls, session.ToolUse{Name: c.Function.Name, CallID: c.ID, Input: arguments(c.Function.Arguments), Client: true})
		}
		all = append(all, s)
	}
	return all, nil
}

// notRead stands for a text that the session has.
const notRead = "[not read]"

// newStatements are those after the assistant's last one. The session has the earlier ones.
func newStatements(all []statement) []statement { return all[behindAssistant(all):] }

// roleLabels are the labels of a chat's roles, in the text for an agent that takes no roles.
var roleLabels = map[string]string{"system": "System", "developer": "System", roleUser: "User", roleAssistant: "Assistant"}

// labelled makes one text of statements. If all are the user's, they get no labels.
func labelled(all []statement) (text string, files []session.Attachment) {
	named := slices.ContainsFunc(all, func(s statement) bool { return s.role != roleUser })
	all = slices.Clone(all)
	for i, s := range all {
		if named {
			all[i].text = roleLabels[s.role] + ": " + frame.All(s.text)
		}
	}
	return joined(all)
}

// postChat sends the new messages of a chat to its session. Without a session, it sends the whole
// chat to a temporary session.
func (a *API) postChat(w http.ResponseWriter, r *gateway.Request) error {
	data, err := r.Read(w)
	if err != nil {
		return err
	}
	var body chatBody
	if err := boundedjson.Unmarshal(data, &body); err != nil {
		return gateway.BadJSON(err)
	}
	key := r.Header.Get(sessionHeader)
	if key == "" {
		key = body.Metadata[sessionMetadata]
	}
	delete(body.Metadata, sessionMetadata)
	temporary, err := wantsTemporary(r)
	if err != nil {
		return err
	}
	if temporary {
		key = ""
	}
	oneShot := key == ""
	agent, err := a.agentOf(r, body.Model)
	if err != nil {
		return err
	}
	body.inSession = !oneShot
	asks, all, err := a.instructed(r, key, agent, data, body.statements)
	if err != nil {
		return err
	}
	if err := body.check(asks != nil); err != nil {
		return err
	}
	if asks == nil && !oneShot {
		if all = newStatements(all); len(all) == 0 {
			return refuse("messages", "Nothing is new: the last message is the assistant's.")
		}
	}
	m, err := a.fit(w, all, oneShot, func(all []statement) (m turnstile.Message, err error) {
		var text string
		var files []session.Attachment
		q := asks
		if asks == nil {
			text, files = labelled(all)
		} else if q, text, files, err = folded("messages", all, oneShot, *asks); err != nil {
			return m, err
		}
		m, err = origin{Model: body.Model, Temporary: oneShot}.message(text, files, body.Metadata, r.Token.Name)
		m.Agent, m.Request = agent, q
		return m, err
	})
	if err != nil {
		return err
	}
	to, err := identify(r, chatSession, key, data)
	if err != nil {
		return err
	}
	to.temporary = oneShot
	to.streamed = body.Stream
	receipt, err := a.send(r, to, m)
	if err != nil {
		return err
	}
	p := place{receipt.Session, receipt.ID}
	defer a.whenGone(r, to, p)()
	repeated := body.Stream && receipt.Duplicate
	var before session.Info
	if repeated {
		if before, err = a.client.Session(p.session).Info(r.Work()); err != nil {
			return err
		}
	}
	stored, err := a.message(r.Work(), p, m)
	if err != nil {
		return err
	}
	c := chat{api: a, place: p, model: body.Model, created: stored.AcceptedAt, asks: stored.Request}
	if c.model == "" {
		c.model = modelName
	}
	if body.Stream {
		if repeated {
			c.run = lastRun(stored, before.Fence)
		}
		return unrepeated(r, c.stream(w, r, body.Options.Usage))
	}
	return c.whole(w, r)
}

// chat is a chat completion of a message.
type chat struct {
	api     *API
	place   place
	model   string
	created time.Time
	run     int64 // of a repeated request: see lastRun
	asks    *session.ModelRequest
}

func (c chat) id() string { return "chatcmpl-" + strings.TrimPrefix(c.place.id(), responsePrefix) }

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func usageOf(o session.Outcome) chatUsage {
	if o.Usage == nil {
		return chatUsage{}
	}
	return chatUsage{o.Usage.InputTokens, o.Usage.OutputTokens, o.Usage.InputTokens + o.Usage.OutputTokens}
}

// finishOf is the finish_reason of a turn that is done, without calls.
func finishOf(o session.Outcome) string {
	if o.Code == session.CodeLength {
		return "length"
	}
	return "stop"
}

// whole responds when the message ends.
func (c chat) whole(w http.ResponseWriter, r *gateway.Request) error {
	o, err := c.api.await(r, c.place)
	if err != nil {
		return c.api.unended(w, r, c.place, err)
	}
	if o.Status != session.StatusDone {
		return gateway.Respond(w, http.StatusBadRequest, failure{turnProblem(told(r, c.asks, o))}) // LangChain repeats a request after 422
	}
	work, done := r.More()
	defer done()
	if _, err := r.Reads(work); err != nil {
		return err
	}
	items, err := c.api.output(work, o)
	if err != nil {
		return err
	}
	message, finish := object{"role": roleAssistant, "content": textOf(items), "refusal": nil}, finishOf(o)
	if calls := callsOf(items); len(calls) > 0 {
		message["tool_calls"], finish = calls, "tool_calls"
		if message["content"] == "" {
			message["content"] = nil
		}
	}
	return gateway.Respond(w, http.StatusOK, object{
		"id": c.id(), "object": "chat.completion", "created": c.created.Unix(), "model": c.model, "usage": usageOf(o),
		"choices": []object{{
			"index": 0, "finish_reason": finish, "logprobs": nil, "message": message,
		}},
	})
}

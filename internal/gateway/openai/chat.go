package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"turnstile"
	"turnstile/internal/boundedjson"
	"turnstile/internal/gateway"
	"turnstile/pkg/session"
)

// chatBody is the body of a chat completion, with the supported fields.
type chatBody struct {
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

	Stop          json.RawMessage `json:"stop"`
	MaxTokens     json.RawMessage `json:"max_tokens"`
	MaxCompletion json.RawMessage `json:"max_completion_tokens"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

const (
	// sessionHeader and sessionMetadata name the session of a chat.
	sessionHeader   = "X-Turnstile-Session"
	sessionMetadata = "session"
)

func (b chatBody) check() error {
	switch {
	case len(b.Messages) == 0:
		return refuse("messages", "There are no messages.")
	case b.N > 1:
		return refuse("n", "There is one choice.")
	case len(b.Tools) > 0:
		return refuse("tools", ownTools)
	case len(b.Functions) > 0:
		return refuse("functions", ownTools)
	case said(b.Stop):
		return refuse("stop", "The agent decides where its reply ends: leave stop out.")
	case said(b.MaxTokens):
		return refuse("max_tokens", unbounded)
	case said(b.MaxCompletion):
		return refuse("max_completion_tokens", unbounded)
	case b.Format.Type != "" && b.Format.Type != "text":
		return refuse("response_format", "The agent replies with text.")
	}
	return checkMetadata(b.Metadata)
}

// newMessages are the messages after the assistant's last one. The session has the earlier ones.
func newMessages(messages []chatMessage) []chatMessage {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "assistant" {
			return messages[i+1:]
		}
	}
	return messages
}

// roleLabels are the labels of a chat's roles, in the text for the agent.
var roleLabels = map[string]string{"system": "System", "developer": "System", "user": "User", "assistant": "Assistant"}

// render makes one text of messages. If all are the user's, they get no labels.
func render(messages []chatMessage) (text string, files []session.Attachment, err error) {
	named := false
	for _, m := range messages {
		named = named || m.Role != "user"
	}
	var texts []string
	for i, m := range messages {
		param := fmt.Sprintf("messages[%d]", i)
		label, ok := roleLabels[m.Role]
		if !ok {
			return "", nil, refuse(param, "The role %.100q is not supported: the agent uses its tools itself.", m.Role)
		}
		said, more, err := parseContent(param, m.Content)
		if err != nil {
			return "", nil, err
		}
		if named {
			said = label + ": " + said
		}
		texts, files = append(texts, said), append(files, more...)
	}
	return strings.Join(texts, "\n\n"), files, nil
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
	if err := body.check(); err != nil {
		return err
	}
	key, messages := r.Header.Get(sessionHeader), body.Messages
	if key == "" {
		key = body.Metadata[sessionMetadata]
	}
	delete(body.Metadata, sessionMetadata)
	oneShot := key == ""
	if !oneShot {
		if messages = newMessages(messages); len(messages) == 0 {
			return refuse("messages", "Nothing is new: the last message is the assistant's.")
		}
	}
	text, files, err := render(messages)
	if err != nil {
		return err
	}
	to, err := identify(r, chatSession, key, data)
	if err != nil {
		return err
	}
	m, err := origin{Model: body.Model}.message(text, files, body.Metadata, r.Token.Name)
	if err != nil {
		return err
	}
	if oneShot { // its session ends with the response
		to.temporary = true
		m.ReplyTo = turnstile.NoReply
	}
	if m.Agent, err = a.agentOf(r, body.Model); err != nil {
		return err
	}
	to.streamed = body.Stream
	receipt, err := a.submit(r, to, m)
	if err != nil {
		return err
	}
	p := place{receipt.Session, receipt.ID}
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
	c := chat{api: a, place: p, model: body.Model, created: stored.AcceptedAt}
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

// whole responds when the message ends.
func (c chat) whole(w http.ResponseWriter, r *gateway.Request) error {
	ctx, cancel := r.Waiting()
	defer cancel()
	o, err := c.api.client.Session(c.place.session).Wait(ctx, c.place.message)
	if err != nil {
		return gateway.Interrupted(err)
	}
	if o.Status != session.StatusDone {
		return gateway.Respond(w, http.StatusBadRequest, failure{turnProblem(o)}) // LangChain repeats a request after 422
	}
	work, done := r.More()
	defer done()
	items, err := c.api.output(work, o)
	if err != nil {
		return err
	}
	return gateway.Respond(w, http.StatusOK, object{
		"id": c.id(), "object": "chat.completion", "created": c.created.Unix(), "model": c.model, "usage": usageOf(o),
		"choices": []object{{
			"index": 0, "finish_reason": "stop", "logprobs": nil,
			"message": object{"role": "assistant", "content": textOf(items), "refusal": nil},
		}},
	})
}

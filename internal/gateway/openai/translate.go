package openai

import (
	"turnstile/pkg/session"
)

// translation makes OpenAI's events of a message's events. It always begins with the first event,
// so that every reader gets the same numbers and items.
type translation struct {
	response response // as it was accepted
	numbers  numbers
	send     func(number int64, kind string, fields object)
	from     int64 // fencing token of the first turn that is sent

	turn   string
	muted  bool // the turn is before the first to send
	n      int  // of the turn's next item
	index  int  // of the response's next item
	text   *openText
	tools  []openTool
	latest string // id of the last stored event
}

// object is an event in JSON.
type object map[string]any

type openText struct {
	textItem
	index int
	text  string
}

type openTool struct {
	toolItem
	index  int
	callID string
}

func newTranslation(r response, n numbers, from int64, send func(number int64, kind string, fields object)) *translation {
	t := &translation{response: r, numbers: n, from: from, send: send}
	for number, kind := range []string{"response.created", "response.queued"} {
		t.send(int64(number), kind, object{"response": r})
	}
	return t
}

// tell sends an event for the latest stored event.
func (t *translation) tell(kind string, fields object) {
	if number := t.numbers.next(t.latest); !t.muted {
		t.send(number, kind, fields)
	}
}

// see translates a stored event.
func (t *translation) see(e session.Event) {
	t.latest = e.ID
	if e.Turn != "" && e.Turn != t.turn {
		t.begin(e.Turn)
	}
	switch e.Type {
	case session.EventText:
		t.add(e.Text)
	case session.EventToolStart:
		t.closeText(completed, "")
		t.openTool(e)
	case session.EventToolEnd:
		t.closeTool(e.CallID, e.Error != "")
	case session.EventSteered:
		t.closeText(completed, "")
		t.n++ // the transcript has the user's message here
		t.n--
	case session.EventTurnRetry, session.EventTurnRequeued:
		t.restart()
	case session.EventTurnEnded:
		if e.Status == session.StatusDone {
			t.closeText(completed, e.Reply)
		}
		t.abandon()
	}
}

// begin begins a turn. Items that an earlier turn left open are incomplete, and the response's
// output is empty again.
func (t *translation) begin(turn string) {
	t.abandon()
	if t.muted {
		t.index = 0
	}
	t.turn, t.n, t.muted = turn, 0, fenceOf(turn) < t.from
	t.restart()
}

// restart sends the response without output.
func (t *translation) restart() {
	t.abandon()
	r := t.response
	r.Status = inProgress
	t.tell("response.in_progress", object{"response": r})
}

// abandon ends the open items.
func (t *translation) abandon() {
	t.closeText(incomplete, "")
	for len(t.tools) > 0 {
		t.closeTool(t.tools[0].callID, true)
	}
}

// next counts an item.
func (t *translation) next() (n, index int) {
	n, index = t.n, t.index
	t.n++
	t.index++
	return n, index
}

// add adds a piece of text to the open item.
func (t *translation) add(piece string) {
	if piece == "" {
		return
	}
	if t.text == nil {
		n, index := t.next()
		t.text = &openText{textItem: newText(t.turn, n, inProgress, ""), index: index}
		t.tell("response.output_item.added", object{"output_index": index, "item": t.text.textItem})
		t.tell("response.content_part.added", t.text.at(object{"part": newPart("")}))
	}
	t.text.text += piece
	t.tell("response.output_text.delta", t.text.at(object{"delta": piece, "logprobs": []any{}}))
}

// at adds an item's place to the fields of an event.
func (o *openText) at(fields object) object {
	fields["item_id"], fields["output_index"], fields["content_index"] = o.ID, o.index, 0
	return fields
}

// closeText ends the open text. The turn's reply, if given, replaces the streamed text.
func (t *translation) closeText(status, reply string) {
	o := t.text
	if o == nil {
		return
	}
	if t.text = nil; reply != "" {
		o.text = reply
	}
	o.Status, o.Content = status, []textPart{newPart(o.text)}
	t.tell("response.output_text.done", o.at(object{"text": o.text, "logprobs": []any{}}))
	t.tell("response.content_part.done", o.at(object{"part": newPart(o.text)}))
	t.tell("response.output_item.done", object{"output_index": o.index, "item": o.textItem})
}

func (t *translation) openTool(e session.Event) {
	n, index := t.next()
	o := openTool{newTool(t.turn, n, inProgress, e.Name), index, e.CallID}
	t.tools = append(t.tools, o)
	t.tell("response.output_item.added", object{"output_index": index, "item": o.toolItem})
	t.tell("response.mcp_call.in_progress", object{"output_index": index, "item_id": o.ID})
}

func (t *translation) closeTool(callID string, broken bool) {
	for i, o := range t.tools {
		if o.callID != callID {
			continue
		}
		t.tools = append(t.tools[:i:i], t.tools[i+1:]...)
		if o.Status = completed; broken {
			o.Status = failed
		}
		t.tell("response.mcp_call."+o.Status, object{"output_index": o.index, "item_id": o.ID})
		t.tell("response.output_item.done", object{"output_index": o.index, "item": o.toolItem})
		return
	}
}

// end sends the ended response. seen says that the stream had the end. Otherwise the stream has
// lost the message's events, and the end has the highest number.
//
// An event error comes before response.failed, as at OpenAI: LangChain knows no other failure, and the
// AI SDK repeats the request unless its type says that it must not.
func (t *translation) end(r response, seen bool) {
	if !seen {
		t.abandon()
		t.numbers.last = max(t.numbers.last, lastNumber-2) // the end has the last number
	}
	t.muted = false
	kind := "response.completed"
	switch r.Status {
	case failed:
		kind = "response.failed"
		t.tell("error", errorEvent(problem{Message: r.Error.Message, Type: invalidRequest, Code: r.Error.Code, Failure: r.Error.Failure}, 0))
	case cancelled, incomplete:
		kind = "response.incomplete"
	}
	if !seen {
		t.numbers.last = lastNumber - 1
	}
	t.tell(kind, object{"response": r})
}

package openai

import (
	"slices"

	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

// translation makes OpenAI's events of a message's events. It always begins with the first event,
// so that every reader gets the same numbers and items.
type translation struct {
	place    place
	response response // as it was accepted
	numbers  numbers
	send     func(number int64, kind string, fields object)

	output stream.Output
	index  int // of the response's next item
	text   *openText
	tools  []openTool // that run; of those behind the output, one may start again
	asked  int        // the last question that was sent: a turn asks it again when it goes on
	ended  []endedItem
	latest string // id of the last stored event
}

// object is an event in JSON.
type object map[string]any

type openText struct {
	textItem
	n, index int
	text     string
}

type openTool struct {
	toolItem
	n, index int
	callID   string
}

type endedItem struct {
	n    int
	item any
}

func newTranslation(p place, r response, n numbers, send func(number int64, kind string, fields object)) *translation {
	t := &translation{place: p, response: r, numbers: n, send: send}
	for number, kind := range []string{"response.created", "response.queued"} {
		t.send(int64(number), kind, object{"response": r})
	}
	return t
}

// tell sends an event for the latest stored event.
func (t *translation) tell(kind string, fields object) {
	t.send(t.numbers.next(t.latest), kind, fields)
}

// see translates a stored event.
func (t *translation) see(e session.Event) {
	t.latest = e.ID
	before := t.output.First
	switch drop := t.output.See(e); {
	case drop < 0:
	case t.output.First != before, drop == 0 && e.Continues == "":
		t.restart()
	default:
		t.cut(drop)
	}
	switch e.Type {
	case session.EventText:
		t.add(e.Text)
	case session.EventToolStart:
		t.closeText(completed, "")
		if e.Client {
			t.call(e)
			return
		}
		t.openTool(e)
	case session.EventToolEnd:
		t.closeTool(e.CallID, e.Error != "")
	case session.EventQuestionAsked:
		t.ask(e)
	case session.EventSteered:
		t.closeText(completed, "")
	case session.EventTurnEnded:
		if e.Status == session.StatusDone {
			t.closeText(completed, e.Reply)
		}
		t.abandon()
	}
}

// restart drops the output: its items that are open are incomplete.
func (t *translation) restart() {
	t.abandon()
	t.ended = nil
	t.progress()
}

// cut drops the output from item n on. A tool that ran may start again, and is the same item then.
func (t *translation) cut(n int) {
	left := slices.DeleteFunc(slices.Clone(t.ended), func(i endedItem) bool { return i.n >= n })
	void := len(left) < len(t.ended)
	t.ended = left
	switch o := t.text; {
	case o != nil && o.n >= n:
		t.closeText(incomplete, "")
		t.ended, void = t.ended[:len(left)], true
	case o != nil:
		t.closeText(completed, "")
	}
	if void {
		t.progress()
	}
}

// progress sends the response with the output that counts.
func (t *translation) progress() {
	r := t.response
	r.Status, r.Output = inProgress, []any{}
	for _, i := range t.ended {
		r.Output = append(r.Output, i.item)
	}
	t.tell("response.in_progress", object{"response": r})
}

// abandon ends the open items.
func (t *translation) abandon() {
	t.closeText(incomplete, "")
	for len(t.tools) > 0 {
		t.closeTool(t.tools[0].callID, true)
	}
}

// next returns the places of the item that the output has just got: in the turn and in the response.
func (t *translation) next() (n, index int) {
	n, index = t.output.Items-1, t.index
	t.index++
	return n, index
}

// turn is the output's turn in the IDs of its items.
func (t *translation) turn() string { return turnName(t.response.Conversation.ID, t.output.First) }

// add adds a piece of text to the open item.
func (t *translation) add(piece string) {
	if piece == "" {
		return
	}
	if t.text == nil {
		t.replace()
		n, index := t.next()
		t.text = &openText{textItem: newText(t.turn(), n, inProgress, ""), n: n, index: index}
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
	t.ended = append(t.ended, endedItem{o.n, o.textItem})
}

func (t *translation) openTool(e session.Event) {
	if slices.ContainsFunc(t.tools, func(o openTool) bool { return o.callID == e.CallID && o.n == t.output.Items-1 }) {
		return // it ran when its turn was interrupted
	}
	t.replace()
	n, index := t.next()
	o := openTool{newTool(t.turn(), n, inProgress, e.Name), n, index, e.CallID}
	t.tools = append(t.tools, o)
	t.tell("response.output_item.added", object{"output_index": index, "item": o.toolItem})
	t.tell("response.mcp_call.in_progress", object{"output_index": index, "item_id": o.ID})
}

// call sends a call of the client's function, which is complete.
func (t *translation) call(e session.Event) {
	t.replace()
	n, index := t.next()
	item := newCallItem(t.turn(), n, completed, e.CallID, e.Name, e.Input)
	begun := item
	begun.Arguments, begun.Status = "", inProgress
	t.tell("response.output_item.added", object{"output_index": index, "item": begun})
	t.tell("response.function_call_arguments.delta", object{"item_id": item.ID, "output_index": index, "delta": item.Arguments})
	t.tell("response.function_call_arguments.done", object{"item_id": item.ID, "output_index": index, "name": item.Name, "arguments": item.Arguments})
	t.tell("response.output_item.done", object{"output_index": index, "item": item})
	t.ended = append(t.ended, endedItem{n, item})
}

// ask sends a question to the user. It is no item of the turn's output, and a text goes on behind it.
func (t *translation) ask(e session.Event) {
	q, ok := e.Question()
	if !ok || q.Number <= t.asked {
		return
	}
	item := approval{t.place, q.Number}.item(e)
	for _, kind := range []string{"response.output_item.added", "response.output_item.done"} {
		t.tell(kind, object{"output_index": t.index, "item": item})
	}
	t.asked = q.Number
	t.index++
}

// replace ends the tools of an interrupted run that the item, which the output has just got, stands for.
func (t *translation) replace() {
	for i := len(t.tools) - 1; i >= 0; i-- {
		if t.tools[i].n >= t.output.Items-1 {
			t.endTool(i, true)
		}
	}
}

func (t *translation) closeTool(callID string, broken bool) {
	if i := slices.IndexFunc(t.tools, func(o openTool) bool { return o.callID == callID }); i >= 0 {
		t.endTool(i, broken)
	}
}

// endTool ends the i-th of the running tools.
func (t *translation) endTool(i int, broken bool) {
	o := t.tools[i]
	t.tools = slices.Delete(slices.Clone(t.tools), i, i+1)
	if o.Status = completed; broken {
		o.Status = failed
	}
	t.tell("response.mcp_call."+o.Status, object{"output_index": o.index, "item_id": o.ID})
	t.tell("response.output_item.done", object{"output_index": o.index, "item": o.toolItem})
	t.ended = append(t.ended, endedItem{o.n, o.toolItem})
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

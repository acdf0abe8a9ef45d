package model

import (
	"cmp"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"turnstile/pkg/session"
)

// piece is a part of a reply. A reply with thoughts goes back to the server with its pieces in their order,
// because the thoughts' signatures hold in no other.
type piece struct {
	Type string `json:"type"`
	Size int    `json:"size,omitempty"` // of a text, in bytes

	// Of thoughts: with the server's signature, or encrypted.
	Thought   string `json:"thought,omitempty"`
	Signature string `json:"signature,omitempty"`
	Data      string `json:"data,omitempty"`

	thought, signature []byte // until the piece is kept
}

// The types of pieces, as the API has them.
const (
	pieceText     = "text"
	pieceCall     = "tool_use"
	pieceThought  = "thinking"
	pieceRedacted = "redacted_thinking"
)

func (p piece) isThought() bool { return p.Type == pieceThought || p.Type == pieceRedacted }

// piecesField is the field of a reply with its pieces.
const piecesField = "pieces"

// keep stores the pieces of a reply with thoughts.
func (s *messageStream) keep() {
	for i := range s.pieces {
		p := &s.pieces[i]
		p.Thought, p.Signature = string(p.thought), string(p.signature)
	}
	if slices.ContainsFunc(s.pieces, piece.isThought) {
		data, _ := encode(s.pieces) // texts and numbers
		s.reply.fields = fields{piecesField: data}
	}
}

// messageStream adds a stream's events to a reply.
type messageStream struct {
	run    *run
	reply  *completion
	pieces []piece
	calls  map[int64]int // the call of each block
	model  string
	used   session.Usage
}

func (s *messageStream) event(e sdk.MessageStreamEventUnion) {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		s.model = e.Message.Model
		s.usage(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
	case "content_block_start":
		s.start(e.Index, e.ContentBlock)
	case "content_block_delta":
		s.delta(e.Index, e.Delta)
	case "message_delta":
		u := e.Usage
		s.usage(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
		s.reply.finish = cmp.Or(string(e.Delta.StopReason), s.reply.finish)
	}
}

// start begins a block. Blocks of servers' own tools are left out.
func (s *messageStream) start(index int64, b sdk.ContentBlockStartEventContentBlockUnion) {
	a := s.reply
	switch b.Type {
	case pieceText, pieceCall, pieceThought, pieceRedacted:
		s.pieces = append(s.pieces, piece{Type: b.Type, Data: b.Data, signature: []byte(b.Signature)})
		a.size += fragmentSize + len(b.ID) + len(b.Name) + len(b.Signature) + len(b.Data)
	}
	if b.Type == pieceCall {
		s.calls[index] = len(a.calls)
		a.calls = append(a.calls, toolCall{id: b.ID, name: b.Name})
		if whole := b.JSON.Input.Raw(); len(whole) > len("null") { // most servers begin with {}
			s.input(index, whole)
		}
	}
	s.say(b.Text)
	s.think(b.Thinking)
}

func (s *messageStream) delta(index int64, d sdk.MessageStreamEventUnionDelta) {
	switch d.Type {
	case "text_delta":
		s.say(d.Text)
	case "thinking_delta":
		s.think(d.Thinking)
	case "signature_delta":
		if p := s.last(); p != nil {
			p.signature = append(p.signature, d.Signature...)
			s.reply.size += len(d.Signature)
		}
	case "input_json_delta":
		s.input(index, d.PartialJSON)
	}
}

// last is the piece that is being written.
func (s *messageStream) last() *piece {
	if n := len(s.pieces); n > 0 {
		return &s.pieces[n-1]
	}
	return nil
}

func (s *messageStream) say(text string) {
	s.run.say(s.reply, text)
	if p := s.last(); p != nil {
		p.Size += len(text)
	}
}

func (s *messageStream) think(text string) {
	s.run.think(s.reply, text)
	if p := s.last(); p != nil {
		p.thought = append(p.thought, text...)
	}
}

func (s *messageStream) input(index int64, part string) {
	at, known := s.calls[index]
	if !known {
		return
	}
	c := &s.reply.calls[at]
	c.raw = append(c.raw, part...)
	s.reply.size += len(part)
}

// usage adds up what the API counts apart. The last event has the sums, and some servers leave out what an earlier one had.
func (s *messageStream) usage(input, read, written, output int64) {
	u := &s.used
	if all := input + read + written; all > 0 {
		u.InputTokens, u.CachedTokens = all, read
	}
	u.OutputTokens = max(u.OutputTokens, output)
	if u.ContextTokens = u.InputTokens + u.OutputTokens; u.ContextTokens > 0 {
		u.Model, s.reply.usage = cmp.Or(s.model, s.run.config.Model), u
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"turnstile/bench/internal/lab"
	"turnstile/bench/peers/internal/plot"
)

// full and short are the shapes of a run, and of one with -quick. In the first, each session is sent a
// burst; in the second, one message and then nothing, like most chats most of the time.
var (
	full  = []lab.Load{{Sessions: 1000, Each: 10}, {Sessions: 10000, Each: 1}}
	short = []lab.Load{{Sessions: 100, Each: 10}, {Sessions: 1000, Each: 1}}
)

// slots is how many messages a peer handles at once, where that can be set.
const slots = 50

// message is the message that is sent, as JSON of about 200 bytes.
type message struct {
	Session  int    `json:"session"`
	Sequence int    `json:"sequence"`
	Text     string `json:"text"`
}

// said is every message's text. restate.mjs and bullmq.mjs get it with their job.
var said = strings.Repeat("What a person says in a chat. ", 5)

func encode(session, sequence int) []byte {
	text, err := json.Marshal(message{session, sequence, said})
	if err != nil {
		panic(err) // two numbers and a string can be encoded
	}
	return text
}

// shapeName is how tables and pictures name a shape: sessions times messages.
func shapeName(l lab.Load) string {
	return plot.Number(float64(l.Sessions)) + " x " + plot.Number(float64(l.Each))
}

// name is a session's name where it has one.
func name(session int) string { return fmt.Sprintf("s%d", session) }

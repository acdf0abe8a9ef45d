package session

import (
	"cmp"
)

// Limits bound stored messages and outcomes. Give senders and workers the same. A zero field means
// its default.
type Limits struct {
	// MessageBytes is the most bytes of one message as JSON. A sender refuses a larger message, and a
	// worker makes it a dead letter. Defaults to 2 MiB.
	MessageBytes int

	// Queue is how many messages may wait in one session, whether or not a turn runs. Delayed
	// messages may fill half of it, rounded up. Defaults to 10,000.
	Queue int

	// AllQueues is how many messages may wait in all sessions together. Workers count them every 20
	// s, and senders may exceed it meanwhile. Messages for a session with a running turn count
	// against Queue only. Defaults to NoLimit.
	AllQueues int

	// Outbox is how many undelivered outcomes a session may have, those of waiting messages
	// included. Defaults to 1,000.
	Outbox int

	// Destination is how many undelivered outcomes one destination may have over all sessions, or
	// NoLimit. Workers count them every 20 s and senders read the counts once a second, so senders
	// may exceed it meanwhile. Defaults to 1,000,000.
	Destination int
}

// WithDefaults returns l with the defaults in place of its zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MessageBytes: cmp.Or(l.MessageBytes, 2<<20), Queue: cmp.Or(l.Queue, 10_000), AllQueues: cmp.Or(l.AllQueues, NoLimit),
		Outbox: cmp.Or(l.Outbox, 1000), Destination: cmp.Or(l.Destination, 1_000_000),
	}
}

// NoLimit as a number or a duration of a Config means that there is no limit, where the field allows it.
const NoLimit = -1

package config

import (
	"cmp"
	"time"

	"turnstile/pkg/session"
)

// Stored are the settings about stored messages, which workers and senders share.
type Stored struct {
	MessageBytes   int `env:"TURNSTILE_MESSAGE_BYTES" envDefault:"2097152" unit:"bytes" agree:"value" help:"The largest message, in JSON. A sender refuses a larger one. A worker makes it a dead letter, with the reason. Set this limit, and those up to TURNSTILE_DESTINATION_CAP, to the same value for workers and senders."`
	LineCap        int `env:"TURNSTILE_LINE_CAP" envDefault:"10000" unit:"messages" agree:"value" help:"The number of messages that may wait in one session, whether a turn runs or not. At most half of them may be delayed. Beyond it senders are refused, and messages of other producers become dead letters."`
	MessagesCap    int `env:"TURNSTILE_MESSAGES_CAP" envDefault:"0" unit:"messages" agree:"value" help:"The number of messages that may wait in all sessions together, as last counted by the workers. Beyond it senders are refused, except to sessions with a running turn. 0: no limit."`
	OutboxCap      int `env:"TURNSTILE_OUTBOX_CAP" envDefault:"1000" unit:"outcomes" agree:"value" help:"The number of a session's outcomes for destinations that may be undelivered, including those of unfinished messages. Beyond it messages with a destination are refused."`
	DestinationCap int `env:"TURNSTILE_DESTINATION_CAP" envDefault:"1000000" unit:"outcomes" agree:"value" help:"The number of outcomes for one destination that may be undelivered in all sessions, including those of unfinished messages, as last counted by the workers. Beyond it messages with that destination are refused. 0: no limit."`

	IdempotencyTTL time.Duration `env:"TURNSTILE_IDEMPOTENCY_TTL" envDefault:"24h" unit:"duration" agree:"value" help:"How long message ids are remembered after the message was stored. The same message does not run again, and another one with the id is refused."`
}

// Limits returns the limits. As a setting 0 means no limit, where there may be none.
func (s Stored) Limits() session.Limits {
	return session.Limits{
		MessageBytes: s.MessageBytes, Queue: s.LineCap, AllQueues: cmp.Or(s.MessagesCap, session.NoLimit),
		Outbox: s.OutboxCap, Destination: cmp.Or(s.DestinationCap, session.NoLimit),
	}
}

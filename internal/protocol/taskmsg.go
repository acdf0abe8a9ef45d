package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// Field numbers of asynq's TaskMessage (asynq v0.26.0, internal/proto). The contract tests check
// them.
const (
	fieldType    = 1
	fieldPayload = 2
	fieldID      = 3
	fieldQueue   = 4
	fieldRetry   = 5
	fieldRetried = 6
	fieldError   = 7
	fieldTimeout = 8

	fieldFailedAt    = 11
	fieldRetention   = 12
	fieldCompletedAt = 13
	fieldHeaders     = 15

	fieldKey   = 1 // of a header
	fieldValue = 2
)

// TaskMessage has the fields of asynq's TaskMessage that Turnstile reads.
type TaskMessage struct {
	taskType string
	payload  []byte
	retried  int
	trace    string
	Failure  string    // the error of the last attempt
	Ended    time.Time // when it was completed or archived, in whole seconds
}

var errTaskMessage = errors.New("not an asynq task message")

// ParseTaskMessage reads these fields. If a field occurs twice, the last one counts, as everywhere
// in proto3.
func ParseTaskMessage(b []byte) (m TaskMessage, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, errTaskMessage
		}
		b = b[n:]
		switch {
		case num == fieldType && typ == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			m.taskType = string(v)
		case num == fieldPayload && typ == protowire.BytesType:
			m.payload, n = protowire.ConsumeBytes(b)
		case num == fieldError && typ == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			m.Failure = string(v)
		case num == fieldRetried && typ == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			m.retried = attempts(v)
		case num == fieldHeaders && typ == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			if name, value := parseHeader(v); name == traceHeader {
				m.trace = wire.TraceParent(value)
			}
		case (num == fieldCompletedAt || num == fieldFailedAt) && typ == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			if at := time.Unix(int64(v), 0); v > 0 && at.After(m.Ended) {
				m.Ended = at
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return m, errTaskMessage
		}
		b = b[n:]
	}
	return m, nil
}

// attempts returns how often a task has failed. asynq stores 32 bits, and other programs may write
// any number: negative ones count as 0, and the highest result leaves room for one more.
func attempts(v uint64) int { return min(max(int(int32(v)), 0), math.MaxInt32-1) }

// TraceParent is the message's traceparent, valid or "".
func (m TaskMessage) TraceParent() string { return m.trace }

// Payload returns the message in the task, as its sender has encoded it.
func (m TaskMessage) Payload() []byte { return m.payload }

// Message returns the user's message in the task. The error wraps session.ErrInvalid.
func (m TaskMessage) Message(limits session.Limits) (wire.Message, error) {
	if m.taskType != wire.TaskType {
		return wire.Message{}, fmt.Errorf("%w task type %q: a session's queue takes %q", session.ErrInvalid, m.taskType, wire.TaskType)
	}
	message, err := wire.Decode(m.payload, limits)
	message.TraceParent = m.trace
	return message, err
}

// MessageID returns the message ID of a task, which its sender knows.
func MessageID(prefix, taskID string) string {
	id, _ := strings.CutPrefix(taskID, prefix)
	return id
}

// completion returns the fields that are added to a completed task's message: how long its result
// is kept, and since when, both in seconds.
func completion(retention, at int64) string {
	b := protowire.AppendTag(nil, fieldRetention, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(retention))
	b = protowire.AppendTag(b, fieldCompletedAt, protowire.VarintType)
	return string(protowire.AppendVarint(b, uint64(at)))
}

// Headers of a task.
const (
	nonceHeader = "turnstile-nonce" // of the call that stored it
	traceHeader = "traceparent"     // as any producer may set it
)

// maxRetry is the number of retries that asynqmon shows and a stock asynq.Server makes. Turnstile's
// workers have their own setting.
const maxRetry = 2

// encodeTask encodes a task with a payload as asynq.Client does. A nonce and a traceparent become
// headers, unless they are "".
func encodeTask(sessionKey, id string, payload []byte, nonce, trace string) []byte {
	b := protowire.AppendTag(make([]byte, 0, len(payload)+256), fieldType, protowire.BytesType)
	b = protowire.AppendString(b, wire.TaskType)
	b = protowire.AppendTag(b, fieldPayload, protowire.BytesType)
	b = protowire.AppendBytes(b, payload)
	b = protowire.AppendTag(b, fieldID, protowire.BytesType)
	b = protowire.AppendString(b, rediskey.TaskID(sessionKey, id))
	b = protowire.AppendTag(b, fieldQueue, protowire.BytesType)
	b = protowire.AppendString(b, rediskey.Queue(sessionKey))
	b = protowire.AppendTag(b, fieldRetry, protowire.VarintType)
	b = protowire.AppendVarint(b, maxRetry)
	b = protowire.AppendTag(b, fieldTimeout, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(defaultTimeout/time.Second))
	return appendHeader(appendHeader(b, nonceHeader, nonce), traceHeader, trace)
}

func appendHeader(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	header := protowire.AppendTag(nil, fieldKey, protowire.BytesType)
	header = protowire.AppendString(header, name)
	header = protowire.AppendTag(header, fieldValue, protowire.BytesType)
	header = protowire.AppendString(header, value)
	b = protowire.AppendTag(b, fieldHeaders, protowire.BytesType)
	return protowire.AppendBytes(b, header)
}

// parseHeader reads an entry of a task's headers. One that cannot be read has no name.
func parseHeader(b []byte) (name, value string) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ != protowire.BytesType {
			return "", ""
		}
		v, m := protowire.ConsumeString(b[n:])
		if m < 0 {
			return "", ""
		}
		switch b = b[n+m:]; num {
		case fieldKey:
			name = v
		case fieldValue:
			value = v
		}
	}
	return name, value
}

// defaultTimeout is asynq.Client's default timeout of a task. Only a stock asynq.Server uses it.
const defaultTimeout = 30 * time.Minute

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}

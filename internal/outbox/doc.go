// Package outbox delivers what the protocol's scripts put into the outboxes of sessions: one
// signed POST for each record, to the destination that the record names.
//
// Guaranteed: at-least-once. A record leaves the outbox when its destination has answered 2xx, or
// as a dead letter. The records of one session and destination, a line, are delivered in order:
// the next POST starts after the last one's answer was stored. Every attempt of a record has the
// same id, the same sequence number and the same bytes as body.
//
// Not guaranteed: exactly-once. A POST whose deliverer dies, or whose answer is lost, is sent
// again, marked as a possible duplicate. A late POST cannot be taken back, so receivers ignore a
// sequence number that is not above the last one. Lines are not ordered among each other.
//
// Any number of deliverers may run. A lease in Redis keeps two of them from one line. The POST's
// deadline lies before the end of the lease's trusted part.
package outbox

// Package outbox delivers the records in the outboxes of sessions: one signed POST for each record, to
// the destination that the record names. The protocol's scripts write the records.
//
// Guaranteed: at-least-once. A record leaves the outbox when its destination has answered 2xx, or as
// a dead letter. A line is the records of one session and destination. They are delivered in order:
// the next POST starts after the last one's answer was stored. Every attempt of a record has the same
// id, the same sequence number and the same body, byte by byte.
//
// Not guaranteed: exactly-once. If the deliverer dies, or the answer is lost, the POST is sent again,
// marked as a possible duplicate. A late POST cannot be recalled, so receivers ignore a sequence
// number that is not above the last one. Lines are not ordered among each other.
//
// Any number of deliverers may run. A lease in Redis keeps two of them from one line. The POST's
// deadline is before the end of the time for which the lease may be trusted.
package outbox

// Code generated from ../lua by go generate; DO NOT EDIT.

package scripts

// Status is the first word of a result that has one.
type Status string

// The statuses of all scripts.
const (
	Again     Status = "again"
	Answered  Status = "answered"
	Batch     Status = "batch"
	Changed   Status = "changed"
	Earlier   Status = "earlier"
	Empty     Status = "empty"
	Ended     Status = "ended"
	Ending    Status = "ending"
	Following Status = "following"
	Gap       Status = "gap"
	Gone      Status = "gone"
	Held      Status = "held"
	Kept      Status = "kept"
	Late      Status = "late"
	Lost      Status = "lost"
	Marked    Status = "marked"
	New       Status = "new"
	Next      Status = "next"
	None      Status = "none"
	OK        Status = "ok"
	Other     Status = "other"
	Owed      Status = "owed"
	Page      Status = "page"
	Paused    Status = "paused"
	Refused   Status = "refused"
	Released  Status = "released"
	Requested Status = "requested"
	Reset     Status = "reset"
	Running   Status = "running"
	Special   Status = "special"
	Starting  Status = "starting"
	Suspended Status = "suspended"
	Taken     Status = "taken"
	Turn      Status = "turn"
	Unknown   Status = "unknown"
	Used      Status = "used"
	Wait      Status = "wait"
	Wrong     Status = "wrong"
)

// Package reference says what a session does, in plain Go: a model with maps and
// slices, no Redis, no scripts and no concurrency. Its tests live random lives on the
// model and on the real thing (the public API of internal/protocol on a Redis) and
// compare, after each operation, what was answered and what is there.
//
// The model is meant to be read: it is the specification of docs/design.md and
// docs/states.md, as code. It was written from those pages and from the headers of the
// scripts. Where the two differ one of them is wrong, and a person has to say which.
//
// It knows nothing of what only makes the real thing fast or safe to repeat: plain
// variants of scripts, statistics, leases of asynq, remembered answers, batches.
package reference

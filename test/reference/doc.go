// Package reference is a model of a session in plain Go, with maps and slices, without Redis,
// scripts and concurrency. Its tests run random lives on the model and on the real thing (the
// public API of internal/protocol on a Redis). After each operation they compare the results and
// the stored state.
//
// The model is written for reading: it is the specification of docs/internals/design.md and docs/internals/keys.md,
// as code. It was written from those pages and from the headers of the scripts. Where the two
// differ one of them is wrong, and a person must decide which.
//
// It leaves out the means of speed and of safe repetition: the fast paths of scripts, statistics, leases
// of asynq, stored results of calls, batches.
package reference

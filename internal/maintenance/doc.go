// Package maintenance does what is in no hurry: it deletes what is too old, archives what
// exceeds a cap, keeps asynqmon's list of queues short, and tells asynqmon of the worker.
package maintenance

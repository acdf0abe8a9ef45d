// Package index has the indexes of all sessions: those that wait for a worker, for a time or for a person,
// those with an owner, those that are known, and the walks over them.
package index

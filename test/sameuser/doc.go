// Package sameuser tests what an agent can do to its guardian and its worker, which have its user
// id. The worker is the built program and runs as an unprivileged user, because root may do
// everything.
package sameuser

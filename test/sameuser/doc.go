// Package sameuser tests the access of an agent to its guardian and its worker, which have its user
// id. The worker is the built program and runs as an unprivileged user, because root may do
// everything.
package sameuser

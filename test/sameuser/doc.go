// Package sameuser tests what an agent can do to its guardian and its worker,
// which have its user id. The worker is the installed program and runs as an
// unprivileged user: root may do everything.
package sameuser

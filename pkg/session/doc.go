// Package session has the types of a session: its key, the messages that people send to
// it, the questions of its agent, the entries of its transcripts, its events, and how a
// message ended. It does not talk to Redis: package turnstile sends and follows messages,
// and pkg/admin reads transcripts.
package session

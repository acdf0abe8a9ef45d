// Package session has the types of a conversation: its key, the messages that people send
// into it, the entries of its transcripts, and the events, outcomes and questions of its
// turns. It does not talk to Redis: package turnstile sends and follows messages, and
// pkg/admin reads transcripts.
package session

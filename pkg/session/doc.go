// Package session has the data types of a session: its key, messages, questions, transcript
// entries, events and outcomes. It does not talk to Redis: package turnstile sends messages,
// follows them and reads transcripts.
package session

// Package session defines what a conversation is made of: its key, the
// messages that people send into it, and the entries of its transcript.
package session

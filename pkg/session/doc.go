// Package session defines what a conversation is made of: its key, the messages
// that people send into it, the entries of its transcripts, its title, and what a
// running turn has done so far.
//
// Everything here is read as leniently as it can be: what a stored record has that
// cannot be read is shown as such, or counts as absent, and never stops a session.
// What writes is in the scripts of internal/protocol, for it has to be fenced.
package session

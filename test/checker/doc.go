// Package checker reads a run's history and decides whether the promises of docs/guarantees.md held.
// It is a pure function of the history. Chaos and simulate use it: chaos runs the real programs,
// simulate whole workers in simulated time. A rule is checked where its records exist.
//
// These are the rules. A finding begins with its rule's name.
//
//	exclusive  no agent finds its session's lock taken
//	fenced     an agent begins after the end of the one before it, with a higher fencing token
//	in order   a message that was accepted before another was sent runs first, stands first in the
//	           transcript, and its outcome is handled first
//	lost       an accepted message stays known and ends; a done one is in a transcript
//	once       a message has one entry in the transcripts
//	refused    a refused message does not run, and Redis has nothing of it; nor is another message
//	           with a used id accepted
//	outcome    the way in which a message ended has a cause: nothing fails, stops or is given up by
//	           itself, and the reply of a done one names it
//	history    an agent gets exactly the messages that the transcript has before its turn, of a turn that failed or
//	           was stopped only those that a recap has
//	delivered  an outcome with a route is handled by its receiver, as it is stored, in one delivery
//	signed     a delivery is signed, in time, for the chat that its sender named, and follows no redirect
//	repeated   attempts of a delivery have the same bytes; one after the attempt that was handled says
//	           that it may be a duplicate; none is handled twice
//	sequence   deliveries arrive in order, and outcomes are handled in the order of their turns
//	told       waits and OpenAI's responses return the stored outcome
//	followed   a follower sees each stored event once, in order; a turn repeats no piece of its text,
//	           and its reply begins with the text of its events
//	live       everything ends within a bound after the last fault
//	late       when nothing fails, a message begins within a second after it could, and so does its
//	           delivery, also again after a 429, and a parked turn after its value (simulate only: its
//	           time is exact)
//	bounded    a message runs again only after a fault, or parked; one that kills its worker is given up after the
//	           allowed deaths: STUCK_LIMIT, and one that may not count
//	steps      a step whose end was stored never runs again in its turn, and one that may not be done again
//	           runs once; its idempotency key stays; the transcript has the steps in their order
//	values     a turn gets the value that a program gave it, the same in all of its runs
//	leftover   no process, no key, no panic stays; an erased session leaves only keys that expire
//
// The constants of package history name the six kinds of sessions. In commands and operator sessions,
// users and operators stop, undo, rerun and delete messages, and let a full queue drop some. Their
// order, repetitions and waits have no single right result, so those rules skip them.
package checker

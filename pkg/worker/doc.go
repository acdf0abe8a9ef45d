// Package worker runs an agent's turns in any program. A Worker claims sessions, runs one turn of
// each at a time, and renews its claims. Any number of workers may use one Redis. It reads no
// environment, handles no signals and sets nothing global; package program does.
//
// # Guarantees
//
//   - A session has one owner, and runs one turn at a time.
//   - A message waits, runs, is a dead letter, or is in the transcript, through drains, crashes and
//     outages of Redis. The transcript has a turn's entries once.
//   - Stop releases every session: a turn that does not end in time runs again on another worker.
//
// # Not guaranteed
//
//   - That an agent runs once for a message. After a crash it may run again. Protect its side effects
//     by the turn's fencing token.
//   - That a turn ends in time. A worker ends the turn's context; the agent must return.
package worker

// A Worker connects its parts and has their one lifecycle (lifecycle.go). A message passes them in
// this order:
//
//	dispatch.go    dispatcher: claims a session for a free slot
//	session.go     sessionRun: the session's turns, one after the other, under one claim
//	turn.go        turnRun: one turn, from the checks to its end
//	turn_agent.go  the agent's input, promotion, the agent's run
//	               internal/turnlog has what it does, for the stream, the journal and the transcript
//	turn_end.go    decides how the turn ends, and writes it
//	turn_report.go reports its end: a line of the log, the Observer
//	tracer.go      follows the turn, for traces
//
// For the turn's agent:
//
//	steering.go    steering: messages for the running turn
//	questions.go   questions: the agent's requests for permission
//	warm_turn.go   warmTurn: the use of a warm agent (warm_pool.go, warm_guard.go)
//	causes.go      causes of the end of the turn's context
//	containment.go makes a panic fail the turn, and not the process
//
// For all sessions:
//
//	roster.go        roster: the sessions that run, and the state of a drain
//	share.go         share: when a session makes room for others
//	renewer.go       renewer: renews all leases
//	signals.go       listener: stops, steers and decisions from elsewhere
//	timers.go        timers: due, reap and sweep wake sessions
//	tokens.go        usedTokens: the day's count of tokens
//	lost_wakeups.go  lostWakeUps: sessions that this worker could not wake
//	jobs.go          jobServer: an asynq.Server for maintenance
//	drain.go         the worker's end, and its progress
//	health.go        whether the loops still move

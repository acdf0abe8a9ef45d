// Package engine runs agents' turns: it claims sessions, runs one turn of each at a
// time, renews its claims, and gives everything back when it drains. Any number of
// workers may run against one Redis.
//
// A Worker wires these parts, hands each what it needs, and has the one lifecycle
// of all (lifecycle.go). A message's way goes down the first column:
//
//	dispatch.go    dispatcher: claims a session for a free slot
//	session.go     sessionRun: the session's turns, one after the other, under one claim
//	turn.go        turnRun: one turn, from the checks to its end
//	turn_agent.go  what the agent is given, promotion, the agent's run
//	recorder.go    recorder: what the agent emits, on its way to stream and transcript
//	turn_end.go    how the turn ends, and what is written of it
//	turn_report.go what is told of its end: a line of the log, the Observer's metrics
//
// Beside the turn, for its agent:
//
//	steering.go    steering: messages for the running turn
//	questions.go   questions: permissions that the user is asked for
//	warm_turn.go   warmTurn: its use of a warm agent (warm_pool.go, warm_guard.go)
//	causes.go      why the turn's context ends
//	containment.go a panic fails the turn, and not the process
//
// Beside the turns, for all sessions:
//
//	roster.go        roster: the sessions that run, and what a drain tells them
//	share.go         share: when a session makes way for others
//	renewer.go       renewer: renews all sentinels
//	signals.go       listener: stops, steers and decisions from elsewhere
//	timers.go        timers: reap, due, sweep find sessions that nobody has woken
//	lost_wakeups.go  lostWakeUps: sessions that this worker could not wake
//	jobs.go          jobServer: an asynq.Server for what needs no hurry
//	drain.go         the worker's end, and how far it is
//	health.go        whether the loops still move
package engine

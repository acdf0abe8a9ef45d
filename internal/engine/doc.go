// Package engine runs agents' turns: it claims sessions, runs one turn of each at
// a time, renews what it holds, and gives everything back when it is told to
// drain. Any number of workers may run against one Redis.
//
// The way of a message through this package:
//
//	dispatch.go   a free slot claims a session
//	serve.go      the session's turns, one after the other, under one sentinel
//	turn.go       one turn: checks, start, the agent's run, the verdict
//	warm.go       agents that are kept between turns (warm_guard.go: whether one may be)
//	recorder.go   what the agent emits, on its way to the stream and transcript
//	keeper.go     renews all sentinels of this worker
//	signals.go    stop and interrupt from elsewhere
//	drain.go      the worker's end
//	observer.go   what is told of turns that ended: a line of the log, metrics
//	health.go     whether the loops still move
//	progress.go   how far a drain is, for whoever waits for it
//	timers.go     reap, due, sweep: finds work that nobody announced
package engine

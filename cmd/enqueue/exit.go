package main

import (
	"context"
	"time"

	"turnstile"
)

// The exit codes.
const (
	exitOK          = 0
	exitOther       = 1   // Redis cannot be reached, refuses, or breaks off
	exitUsage       = 2   // flags, settings or input that break the rules
	exitRefused     = 3   // the session was busy, or its queue was full
	exitTimeout     = 4   // no result in time; the message stays
	exitEnded       = 5   // the message did not succeed
	exitInterrupted = 130 // Ctrl-C, or nobody reads stdout any more; sent messages stay
)

// worst returns the code of several messages: one that was not accepted counts before one that did
// not succeed.
func worst(codes map[int]bool) int {
	for _, code := range []int{exitInterrupted, exitOther, exitRefused, exitUsage, exitEnded, exitTimeout} {
		if codes[code] {
			return code
		}
	}
	return exitOK
}

// failure is an error with its exit code and its message.
type failure struct {
	code        int
	text        string
	session, id string
	line        int  // of the file, 0: not about a line
	said        bool // an object on stdout reports it already
}

func (f failure) Error() string { return f.text }

// usage is bad usage or input.
func usage(err error) failure { return failure{code: exitUsage, text: err.Error()} }

// noWorkerAfter is when the check for a running worker begins. The check takes another second and a
// half if none is running, so the hint comes after 3 s.
const noWorkerAfter = 1500 * time.Millisecond

// hintNoWorker calls say if no worker is running and the wait still lasts. stop ends the check and
// waits for it.
func hintNoWorker(ctx context.Context, client *turnstile.Client, say func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(noWorkerAfter):
		}
		if has, err := client.HasWorker(ctx); !has && err == nil {
			say()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Package kills kills workers in the middle of turns of 20 steps, and compares what the steps have done with what
// Turnstile says of them. `make kills` makes 1,000 kills, `make test` a few.
//
// The real workers run on a real redis-server with AOF always, with three agents: model with a model's server that
// the test plays, a jsonl command, and a Go agent with agent.Step. Every step writes a line when it begins and
// when it ends into the record, a file that is synced before the step goes on. At points of its life an agent
// asks the test to go on: there the test kills the worker, or some milliseconds later. Now and then it kills Redis,
// too, and starts it again.
//
// The program agent is the agents' side.
package kills

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Steps is how many steps a turn has.
const Steps = 20

// Name is a step's.
func Name(n int) string { return fmt.Sprintf("act%02d", n) }

// Again reports whether a step runs again if nobody knows its end.
func Again(n int) bool { return n%5 == 2 }

// Safe reports whether a step is said to have no effects.
func Safe(n int) bool { return n%5 == 4 }

// Result is a step's. Each run of a step has another nonce.
type Result struct {
	N     int    `json:"n"`
	Nonce string `json:"nonce"`
}

// What an Act may be.
const (
	Started = "started"
	Ended   = "ended"
	Stored  = "stored" // its agent knows that the end is stored, or has got it from an earlier run
)

// Act is a line of the record: something that a step, or its agent, has done.
type Act struct {
	What    string `json:"what"`
	Message string `json:"message"`
	N       int    `json:"n"`
	Key     string `json:"key,omitempty"` // for the receivers of its effects
	Nonce   string `json:"nonce,omitempty"`
	Run     string `json:"run,omitempty"`
}

// The names of the record and of the test's socket, in the test's directory.
const (
	RecordName = "record"
	SocketName = "socket"
)

// The environment of an agent.
const (
	DirVariable    = "KILLS_DIR"
	WorkerVariable = "KILLS_WORKER"
)

// Host is an agent's way to the test.
type Host struct{ Dir, Worker string }

// Here is the host of this process.
func Here() Host { return Host{os.Getenv(DirVariable), os.Getenv(WorkerVariable)} }

// Record appends a line to the record. It returns after the line is on the disk.
func (h Host) Record(a Act) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(h.Dir, RecordName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "\n%s\n", line) // the line before may lack its end: who wrote it was killed
	return errors.Join(err, file.Sync(), file.Close())
}

// At waits until the test lets the agent go on. If the worker is killed there, that does not come.
func (h Host) At(ctx context.Context, point string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(h.Dir, SocketName))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s %s\n", h.Worker, point); err != nil {
		return err
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}

// ParsePoint is the test's side of At.
func ParsePoint(line string) (worker, point string) {
	worker, point, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	return worker, point
}

// Do is the work of a step.
func (h Host) Do(ctx context.Context, message string, n int, key, run string) (Result, error) {
	r := Result{n, rand.Text()}
	act := Act{Message: message, N: n, Key: key, Nonce: r.Nonce, Run: run}
	for _, half := range []struct{ what, point string }{{Started, "at a step's start"}, {Ended, "at its end"}} {
		act.What = half.what
		if err := h.Record(act); err != nil {
			return r, err
		}
		if err := h.At(ctx, half.point); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Keep records that a step's end is stored.
func (h Host) Keep(message string, r Result, run string) error {
	return h.Record(Act{What: Stored, Message: message, N: r.N, Nonce: r.Nonce, Run: run})
}

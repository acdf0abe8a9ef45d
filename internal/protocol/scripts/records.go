// Code generated from ../lua by go generate; DO NOT EDIT.

package scripts

import (
	"time"

	"turnstile/internal/redis/script"
)

// Line is a record within a result.
type Line struct {
	To     string
	N      int64
	Oldest int64
}

func readLine(l script.Result) (r Line) {
	r.To, r.N, r.Oldest = l.Text(0), l.Int(1), l.Int(2)
	return r
}

// Message is a record within a result.
type Message struct {
	ID          string
	Msg         string
	Age         time.Duration
	Redelivered int64
	Unique      bool
	Steer       bool
}

func readMessage(l script.Result) (r Message) {
	r.ID, r.Msg, r.Age, r.Redelivered, r.Unique, r.Steer = l.Text(0), l.Text(1), l.Millis(2), l.Int(3), l.Bool(4), l.Bool(5)
	return r
}

// Record is a record within a result.
type Record struct {
	To       string
	Sequence int64
	ID       int64
	Attempt  int64
	Unsure   bool
	Refused  int64
	By       int64
	Body     string
}

func readRecord(l script.Result) (r Record) {
	r.To, r.Sequence, r.ID, r.Attempt, r.Unsure, r.Refused, r.By, r.Body = l.Text(0), l.Int(1), l.Int(2), l.Int(3), l.Bool(4), l.Int(5), l.Int(6), l.Text(7)
	return r
}

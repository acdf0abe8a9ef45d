package outbox

import "time"

// Observer receives events for metrics. Its methods are called concurrently.
type Observer interface {
	// DeliveryDone is called when a record leaves its outbox, delivered or as a dead letter. age is the
	// time since the record was stored.
	DeliveryDone(destination string, delivered bool, age time.Duration)

	// DeliveryFailed is called for each attempt without a response of 2xx. why is one of Failures.
	DeliveryFailed(destination, why string)

	// DeliveryRefused is called for each record that must not be sent to its destination: it was forged,
	// or the destination does not admit its session.
	DeliveryRefused(destination string)

	// UnknownDestinations is called when n lines are skipped because this deliverer does not know their
	// destinations.
	UnknownDestinations(n int)

	// DeliveryRedisFailed is called for each failure of Redis.
	DeliveryRedisFailed()
}

// Failures are the reasons of failed attempts: no answer, or the kind of its status.
func Failures() []string { return []string{"network", "timeout", "3xx", "4xx", "5xx"} }

// noObserver ignores everything.
type noObserver struct{}

func (noObserver) DeliveryDone(string, bool, time.Duration) {}
func (noObserver) DeliveryFailed(string, string)            {}
func (noObserver) DeliveryRefused(string)                   {}
func (noObserver) UnknownDestinations(int)                  {}
func (noObserver) DeliveryRedisFailed()                     {}

package worker

// oneAtATime is a lock that its holder keeps during a call to Redis. It is a channel, not a
// sync.Mutex: inside a bubble of testing/synctest (test/simulate) time does not pass while a
// goroutine waits for a mutex.
type oneAtATime chan struct{}

func newOneAtATime() oneAtATime { return make(oneAtATime, 1) }

func (c oneAtATime) lock()   { c <- struct{}{} }
func (c oneAtATime) unlock() { <-c }

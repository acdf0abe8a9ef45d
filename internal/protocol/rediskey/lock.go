package rediskey

// Lock holds the key names of one lock of pkg/lockguard. They share the hash tag {NAME}. No
// lock's name starts with "session:", because sessions have their own sentinel and run under
// {session:KEY}.
type Lock struct{ own string }

// ForLock names the keys of a lock.
func ForLock(name string) Lock { return Lock{own: "turnstile:{" + name + "}:"} }

func (l Lock) Sentinel() string { return l.own + "sentinel" } // STRING token, with a TTL
func (l Lock) Run() string      { return l.own + "run" }      // STRING owner and fencing token; outlives the claim
func (l Lock) Waiters() string  { return l.own + "waiters" }  // ZSET token -> place in the queue
func (l Lock) Waiting() string  { return l.own + "waiting" }  // HASH token -> the waiter's registration
func (l Lock) Released() string { return l.own + "released" } // STRING token that released last, for the rest of its TTL

// Grants is the PUBSUB channel on which the waiters of one process are notified that they have a
// lock.
func Grants(guard string) string { return "turnstile:grants:" + guard }

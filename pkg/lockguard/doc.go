// Package lockguard is a lock across processes, on Redis, for any Go program. Waiters get it in order,
// each holder gets a fencing token, and a holder notices when it loses the lock.
//
//	lock, err := guard.Acquire(ctx, "invoices") // waits in line
//	if err != nil { ... }
//	defer lock.Release(ctx)
//	work(lock.Context(ctx), lock.Fence()) // the context ends when the lock is lost
//
// # Guarantees
//
//   - One holder at a time, as long as Redis loses no confirmed write.
//   - First come, first served. Release hands the lock to the waiter that has waited longest.
//     TryAcquire does not overtake waiters. One subscription serves all waiters of a Guard.
//   - A holder that dies or hangs loses the lock within the TTL, and the first waiter takes it
//     then. A waiter that died is skipped: at once, on Redis Cluster within a TTL.
//   - A lock is renewed every third of its TTL. [Lock.Context] ends and [Lock.Held] returns [ErrLost]
//     before the TTL can end in Redis, even if Redis cannot be reached or the process was stopped and
//     continued. Both count the TTL from before the request that took or renewed the lock, on the
//     monotonic clock, less a tenth of it.
//   - The fencing token rises with every holder: max(stored + 1, Redis' clock in microseconds).
//     It can fall only if the record is lost, or has expired after an hour without use, and Redis'
//     clock was set back further than that.
//   - Each call is one script. A repetition, which go-redis sends after a lost reply, returns the same.
//   - A full Redis (maxmemory, noeviction) refuses new holders. Renewals, handovers and releases
//     work.
//
// # Not guaranteed
//
//   - Mutual exclusion across a failover. A replica may not know the holder. Then two hold the lock
//     until the first one's next renewal at the new primary. In a split brain, where the old primary
//     still serves, it goes on confirming the first one's renewals: two hold the lock for as long as
//     that lasts. Redis' min-replicas-to-write 1 ends it after min-replicas-max-lag and the rest of a
//     TTL. Only the fencing token tells the holders apart: a store that is changed under the lock must
//     remember the highest token it has seen and reject a lower one.
//   - That a lost holder stops. Its context ends, and its work must end with that.
//   - The TTL while the whole machine is suspended: Linux stops the monotonic clock. The next
//     renewal, or a store that checks the fencing token, detects the loss.
//   - Order for a waiter in a process that was stopped for longer than a TTL. The waiter is skipped
//     until the process continues, but keeps its place.
//   - The result of a Release that is repeated after a lost reply, if another holder has released
//     since: it returns ErrLost.
//
// The lock is not reentrant and has no read mode. It needs Redis 7.0 or later: a single one, Redis
// Sentinel, or a Cluster. Acquire and Release send one command each. A waiter sends one more every half
// TTL, a holder every third. The keys are turnstile:{NAME}:sentinel, run, released, waiters and waiting.
package lockguard

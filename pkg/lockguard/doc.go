// Package lockguard is a lock across processes, on Redis, for any Go program. Waiters get
// it in order, each holder gets a fencing token, and a holder learns when it lost the lock.
//
//	guard, err := lockguard.New(client)
//	...
//	lock, err := guard.Acquire(ctx, "invoices") // waits in line
//	if err != nil { ... }
//	defer lock.Release(ctx)
//	work(lock.Context(), lock.Fence()) // the context ends when the lock is lost
//
// # Guarantees
//
//   - One holder at a time, as long as Redis keeps what it has confirmed.
//   - First come, first served. Release hands the lock to the waiter that has waited
//     longest; TryAcquire does not overtake either. Waiters do not poll: one subscription
//     serves all waiters of a Guard.
//   - A holder that died or hangs loses the lock within the TTL, and the first waiter
//     takes it then. A waiter that died is passed over: at once, on Redis Cluster within
//     a TTL.
//   - The lock's context ends, with a cause that wraps [ErrLost], before the TTL can end
//     in Redis, whether or not Redis can be reached. [Lock.Held] returns ErrLost by then
//     even in a process that was stopped and goes on. Both trust the lock from before the
//     request that took or renewed it, on the monotonic clock, less a tenth of the TTL.
//   - The fencing token rises with every holder: max(stored + 1, Redis' clock in
//     microseconds). It falls back only if the record is lost, or an hour old, and Redis'
//     clock was set back further than that.
//   - Release may be called twice, after a loss and with a cancelled context. It never
//     releases another's lock. A cancelled Acquire returns at once, and passes on what it
//     was given meanwhile.
//   - Each call is one script. A repetition, as go-redis sends it after a lost reply,
//     changes nothing and returns the same.
//   - A full Redis (maxmemory, noeviction) refuses new holders, but renews, hands over
//     and releases.
//
// # Not guaranteed
//
//   - Mutual exclusion across a failover. Redis replicates asynchronously: a replica may
//     not know the holder, and then two hold the lock until the first one's next renewal.
//     Only the fencing token tells them apart: what is changed under the lock must
//     remember the greatest token it has seen and refuse a lower one.
//   - That a lost holder stops. It is told; what it runs must end with its context.
//   - The lease while the whole machine is suspended: Linux stops the monotonic clock.
//     The next renewal, or a check of the fencing token, finds out.
//   - Order for a waiter whose process was away for longer than a TTL. It keeps its
//     place, and is passed over while it is away.
//   - The result of a Release that is repeated after a lost reply when another holder
//     has released since: it returns ErrLost.
//
// The lock is not reentrant and has no read mode. It needs Redis 7.0 or later, alone,
// behind Redis Sentinel or as a Cluster. Acquire and Release are one command each, plus
// one for every half TTL of waiting and every third of a TTL of holding. The keys are
// turnstile:{NAME}:sentinel, run, released, waiters and waiting.
package lockguard

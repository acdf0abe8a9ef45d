// Package lockguard is a lock across processes, on Redis: Turnstile's sentinel,
// useful to any Go program by itself.
//
//	guard, err := lockguard.New(client)
//	...
//	lock, err := guard.Acquire(ctx, "invoices") // waits its turn
//	if err != nil { ... }
//	defer lock.Release(ctx)
//	work(lock.Context(), lock.Fence()) // ends when the lock is lost
//
// # What is guaranteed
//
//   - One holder at a time, as long as Redis keeps what it answered for.
//   - First come, first served. Release hands the lock straight to the one who
//     waits longest; nobody overtakes, TryAcquire neither. Waiting costs no
//     polling: a waiter is told by PUBLISH, on one connection for all the
//     waiters of a guard.
//   - A hold ends. A holder that died or hangs loses the lock within the TTL (15 s
//     by default), and the first in the line takes it then. A waiter that
//     died is passed over: at once, or on Redis Cluster within a TTL.
//   - A holder knows. Its context ends with a cause that wraps [ErrLost] before
//     the TTL can have passed in Redis, whether or not Redis can be reached,
//     and [Lock.Held] says so even in a process that was stopped and goes on.
//     See [Lease] for how this is measured.
//   - The fence rises. Every hold gets a greater one than all before:
//     max(stored + 1, Redis' clock in us). Neither an expiry nor a failover
//     makes it fall back; only the two together could: a record that is lost,
//     or an hour old, and a clock that was set back further than that.
//   - Giving up is safe. [Lock.Release] may be called twice, after a loss and
//     with a cancelled context, and never frees another's hold. A cancelled
//     Acquire returns at once, and passes on what it was given meanwhile.
//   - Sending again is safe. Each move is one script; repeated under the same
//     token, as go-redis does when a reply was lost, it repeats its answer.
//   - A full Redis (maxmemory, noeviction) refuses new holds, but renews,
//     hands over and releases.
//
// # What is not
//
//   - Redis replicates asynchronously. A failover may forget a hold that it
//     answered for, and then two hold at once until the first one's next renewal.
//     Only the fence tells them apart: what is changed under the lock must
//     remember the greatest fence it has seen and refuse a lower one.
//   - A lost holder is told, not stopped. What it runs must end with its
//     context, and a process that it started outside must be ended by it, or
//     check the fence.
//   - The trust in a lease needs a clock that runs while the process does not.
//     Suspending the whole machine stops it, on Linux; the next renewal or
//     check of the fence finds out.
//   - It is not reentrant, and has no read lock.
//   - First come, first served counts what Redis sees: a waiter whose process
//     was away for longer than its registration (one TTL) keeps its place, but
//     is passed over while it is away.
//   - Release under a token that Redis has already forgotten answers ErrLost:
//     sent again after a lost reply when another has released since, it cannot
//     know better.
//
// # States
//
//	       Acquire              Promote
//	free ───────────► starting ─────────► running
//	 ▲                    │                  │
//	 │                    ├──────────────────┘
//	 │                    │
//	 ├── Release, nobody waits
//	 │                    │
//	 │                    ├── Release, somebody waits ──► starting, held by the
//	 │                    │                               first waiter, new fence
//	 └── the TTL passed ──┘
//	     without a renewal: the holder has seen ErrLost, the first waiter takes
//	     the free lock at once
//
// # In Redis
//
// All keys of lock N carry the hash tag {N}; [turnstile/internal/rediskey] names
// them, and the formats stand in hold.lua and line.lua.
//
//	turnstile:{N}:sentinel  the holder's token, with the TTL. It alone says who holds
//	turnstile:{N}:run       who that is, since when, phase, fence; kept for an hour
//	turnstile:{N}:released  the token that released last, until its TTL is over
//	turnstile:{N}:waiters   the line: tokens by place
//	turnstile:{N}:waiting   how to reach each of them, and until when it counts
//
// The line's keys exist only while somebody waits. It works on one Redis (7.0 or
// later), behind Redis Sentinel and on Redis Cluster. An acquire and a release
// are one command each, waiting included, plus one for every half TTL of
// waiting and every third of a TTL of holding.
package lockguard

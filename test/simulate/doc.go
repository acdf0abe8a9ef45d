// Package simulate runs whole workers, deliverers and senders in simulated time.
//
// A life is made from a seed: an embedded Redis, two workers with their maintenance jobs and deliverers,
// three chats, a follower of events and a receiver of webhooks, all in one bubble of testing/synctest. They
// are the programs' own code. Only the agents, the connections and the receiver belong to the simulation.
// Connections are in memory, and each write arrives after a delay drawn from the seed. Time passes when
// every goroutine waits, so minutes of leases, retries and sweeps cost a fraction of a second.
//
// For 45 simulated seconds there are messages and faults. Then everything must end. All write a history,
// and test/checker decides from it, as it does for chaos. A goroutine that does not end is a deadlock of
// the bubble.
//
// TestSeeds (make simulate) starts a process for each seed. Its Go runtime has patches (testdata/runtime):
// inside a bubble, select, maps, timers and math/rand repeat their random choices, and the scheduler
// preempts no goroutine. With one P and no concurrent garbage collection, a seed repeats its history.
// TestLives has a few lives on the plain runtime.
//
// A bubble has no processes, no sockets, no redis-server and one clock. So chaos tests SIGSTOP, guardians,
// exec agents, HTTP of gateways and agents, persistence, and clocks that differ. A killed worker is
// simulated: it reaches nothing, and its agents end.
package simulate

package outbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol/deliveries"

	"github.com/redis/go-redis/v9"
)

// stopPatience is how long Stop waits for cancelled deliveries.
const stopPatience = 5 * time.Second

// indexPatience is how long Stop tries to hand over the noticed sessions.
const indexPatience = time.Second

// redisPause is the pause after a failure of Redis.
const redisPause = time.Second

// Deliverer delivers the records of all sessions. Stop may be called before Start, and twice.
type Deliverer struct {
	opts   Options
	rdb    redis.UniversalClient
	poster *poster
	retry  backoff.Backoff
	lease  time.Duration

	intake, work       context.Context // intake ends with Stop, work when Stop is cut short
	endIntake, endWork context.CancelFunc
	slots              chan struct{} // one for each session
	noticed            noticed
	actors             sync.WaitGroup

	states  states
	ages    ages
	strange atomic.Bool // an unknown destination was logged

	mu      sync.Mutex
	targets map[string]*target
	held    int // of all targets
}

// New makes a Deliverer.
func New(rdb redis.UniversalClient, o Options) (*Deliverer, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &Deliverer{
		opts: o, rdb: rdb,
		poster:  newPoster(o.Concurrency, o.Dial),
		retry:   backoff.Backoff{First: o.RetryBackoff, Longest: o.LongestBackoff, Spread: true},
		lease:   leaseTimeouts * o.Timeout,
		slots:   make(chan struct{}, o.Concurrency),
		noticed: newNoticed(),
		targets: map[string]*target{},
	}
	d.states = states{rdb: rdb, failed: d.failed, reading: make(chan struct{}, 1), known: map[string]time.Time{}}
	d.work, d.endWork = context.WithCancel(context.Background())
	d.intake, d.endIntake = context.WithCancel(d.work)
	return d, nil
}

// Start begins to deliver. It returns when the deliverer receives notices of new records, when its
// subscription has failed, or when ctx ends. It delivers in each case.
func (d *Deliverer) Start(ctx context.Context) {
	listening := make(chan struct{})
	d.actors.Go(func() { d.listen(sync.OnceFunc(func() { close(listening) })) })
	d.actors.Go(d.run)
	select {
	case <-listening:
	case <-ctx.Done():
	}
}

// Stop takes nothing new, lets POSTs in progress finish, and returns the leases. When cut ends, it
// cancels those POSTs and marks their records as possible duplicates. Then it returns within 6 s.
func (d *Deliverer) Stop(cut context.Context) {
	d.endIntake()
	defer context.AfterFunc(cut, d.endWork)()
	d.join()
	if rest := d.noticed.rest(); len(rest) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.work), indexPatience)
		if err := deliveries.IndexOutboxNow(ctx, d.rdb, rest...); err != nil {
			d.failed("index the noticed sessions", err) // the sweep finds them
		}
		cancel()
	}
	d.endWork()
	d.poster.close()
}

// join returns when all goroutines have returned, or stopPatience after they were cancelled.
func (d *Deliverer) join() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.actors.Wait()
	}()
	select {
	case <-ended:
		return
	case <-d.work.Done():
	}
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		d.opts.Logger.Warn("deliveries hang: other deliverers repeat them when their leases expire")
	}
}

// listen notes the sessions with new records. Notices may get lost: the index has those sessions, too.
func (d *Deliverer) listen(ready func()) {
	defer ready()
	for d.intake.Err() == nil {
		err := deliveries.OutboxSignals(d.intake, d.rdb, ready, d.noticed.add)
		if err != nil && d.intake.Err() == nil {
			d.failed("listen for new records", err)
			d.pause(redisPause, nil)
		}
	}
}

// run visits sessions that were noticed or are due, as many at once as there are slots.
func (d *Deliverer) run() {
	due := time.Now()
	for d.reserve(); d.intake.Err() == nil; d.reserve() {
		if session, ok := d.noticed.take(); ok {
			d.start(session, 0)
			continue
		}
		if wait := time.Until(due); wait > 0 {
			<-d.slots
			d.pause(wait, d.noticed.wake)
			continue
		}
		n := 1 + d.reserveMore()
		sessions, score, err := deliveries.DueOutbox(d.work, d.rdb, n, d.lease+d.opts.Timeout)
		for range n - len(sessions) {
			<-d.slots
		}
		for _, session := range sessions {
			d.start(session, score)
		}
		switch {
		case err != nil && d.intake.Err() == nil:
			d.failed("look for due records", err)
			due = time.Now().Add(redisPause)
		case len(sessions) < n:
			due = time.Now().Add(d.opts.Poll)
		}
	}
}

// start visits a session, in a reserved slot.
func (d *Deliverer) start(session string, score int64) {
	d.actors.Go(func() {
		defer func() { <-d.slots }()
		d.visit(session, score)
	})
}

// reserve waits for a free slot, or for the end of the intake.
func (d *Deliverer) reserve() {
	select {
	case d.slots <- struct{}{}:
	case <-d.intake.Done():
	}
}

// reserveMore takes the other free slots.
func (d *Deliverer) reserveMore() (n int) {
	for {
		select {
		case d.slots <- struct{}{}:
			n++
		default:
			return n
		}
	}
}

func (d *Deliverer) pause(t time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-d.intake.Done():
	}
}

// stopping reports whether Stop was called.
func (d *Deliverer) stopping() bool { return d.intake.Err() != nil }

func (d *Deliverer) failed(what string, err error) {
	d.opts.Observer.DeliveryRedisFailed()
	d.opts.Logger.Warn("a call to Redis failed", "what", what, "error", err)
}

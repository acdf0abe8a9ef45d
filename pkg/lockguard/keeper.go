package lockguard

import (
	"container/heap"
	"sync"
	"time"
)

// keeper watches the locks of one guard: it renews them and ends those whose
// time is up. It has one timer for all of them, which a lock that is released
// soon never touches.
type keeper struct {
	mu    sync.Mutex
	locks wakeups
	timer *time.Timer // armed for armed, if that is not zero
	armed time.Time
}

// add starts watching.
func (k *keeper) add(l *Lock, wake time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.wake = wake
	heap.Push(&k.locks, l)
	k.arm()
}

// wakeAt changes when a watched lock is looked at next.
func (k *keeper) wakeAt(l *Lock, wake time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		l.wake = wake
		heap.Fix(&k.locks, l.index)
		k.arm()
	}
}

// remove stops watching. The timer stays armed: it will find nothing to do.
func (k *keeper) remove(l *Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		heap.Remove(&k.locks, l.index)
	}
}

// arm makes the timer fire no later than the first lock's wake.
func (k *keeper) arm() {
	if len(k.locks) == 0 {
		return
	}
	first := k.locks[0].wake
	if !k.armed.IsZero() && !first.Before(k.armed) {
		return
	}
	k.armed = first
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Until(first), k.tick)
	} else {
		k.timer.Reset(time.Until(first))
	}
}

// tick is the timer's call.
func (k *keeper) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = time.Time{}
	now := time.Now()
	for len(k.locks) > 0 && !k.locks[0].wake.After(now) {
		l := k.locks[0]
		if l.lease.Held() != nil {
			heap.Pop(&k.locks)
			continue
		}
		// What comes next if the renewal does not: the lease's end.
		l.wake = l.lease.Deadline()
		heap.Fix(&k.locks, 0)
		if !l.claim.guard.manual && !l.renewing.Swap(true) {
			go l.renewNow()
		}
	}
	k.arm()
}

// wakeups is a heap of locks, the first to be looked at on top.
type wakeups []*Lock

func (w wakeups) Len() int           { return len(w) }
func (w wakeups) Less(i, j int) bool { return w[i].wake.Before(w[j].wake) }
func (w wakeups) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

func (w *wakeups) Push(x any) {
	l := x.(*Lock)
	l.index = len(*w)
	*w = append(*w, l)
}

func (w *wakeups) Pop() any {
	last := len(*w) - 1
	l := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	l.index = -1
	return l
}

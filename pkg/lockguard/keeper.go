package lockguard

import (
	"container/heap"
	"sync"
	"time"
)

// keeper renews the locks of one guard, and drops those whose trust has ended. One timer serves all
// locks; a lock that is released soon never arms it.
type keeper struct {
	mu    sync.Mutex
	locks wakeups
	timer *time.Timer // set to armed, unless that is zero
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

// wakeAt changes when the keeper checks a lock next.
func (k *keeper) wakeAt(l *Lock, wake time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		l.wake = wake
		heap.Fix(&k.locks, l.index)
		k.arm()
	}
}

// remove ends the watch. The timer stays armed and finds nothing to do.
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

// tick checks the locks whose time has come.
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
		// If the renewal does not return, the next check is at the lease's end.
		l.wake = l.lease.Deadline()
		heap.Fix(&k.locks, 0)
		if !l.guard.manual && !l.renewing.Swap(true) {
			go l.renewNow()
		}
	}
	k.arm()
}

// wakeups is a heap of locks by the time of their next check.
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

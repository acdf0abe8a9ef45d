package gateway

import (
	"context"
	"sync"
)

// budget bounds what the requests of all tokens take at once, such as bytes. One token takes at most three
// quarters, so that it cannot block the others.
type budget struct {
	most int64

	mu    sync.Mutex
	taken int64
	by    map[string]int64 // by the names of tokens
	freed chan struct{}    // is closed at the next free
}

func newBudget(most int64) *budget {
	return &budget{most: most, by: map[string]int64{}, freed: make(chan struct{})}
}

// take takes n for a token, if there is as much.
func (b *budget) take(token string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken+n > b.most || b.by[token]+n > b.most/4*3 {
		return false
	}
	b.taken += n
	b.by[token] += n
	return true
}

// await takes n for a token as soon as there is as much. It returns false if ctx ends first.
func (b *budget) await(ctx context.Context, token string, n int64) bool {
	for {
		b.mu.Lock()
		freed := b.freed
		b.mu.Unlock()
		if b.take(token, n) {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// free gives n back.
func (b *budget) free(token string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
	if b.by[token] -= n; b.by[token] == 0 {
		delete(b.by, token)
	}
	close(b.freed)
	b.freed = make(chan struct{})
}

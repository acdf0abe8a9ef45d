package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"turnstile/internal/chat/terminal"
)

const (
	// redrawEvery is the shortest time between two drawings of the progress.
	redrawEvery = 100 * time.Millisecond

	barWidth = 30

	// estimateAfter is how long the work must last before its end is estimated.
	estimateAfter = 2 * time.Second
)

// progress is a line on a terminal that shows how far a file is: a bar of the bytes read, or of the
// results if they are awaited. A bar of results begins when the file is read. It is safe for
// concurrent use. A nil progress shows nothing.
type progress struct {
	screen *terminal.Screen
	size   int64 // of the file in bytes, -1: unknown
	waits  bool  // for results

	mu      sync.Mutex
	read    int64 // bytes
	in      int   // messages that were sent
	waited  int   // how many of them are awaited
	results int
	left    int  // messages that are no longer awaited, without a result
	whole   bool // the file is read: only results are missing
	began   time.Time

	drawn   time.Time
	pending *time.Timer // draws later changes; nil: there are none
	over    bool
}

func newProgress(screen *terminal.Screen, size int64, waits bool) *progress {
	return &progress{screen: screen, size: size, waits: waits, began: time.Now()}
}

// skip counts a line of the file that has no message.
func (p *progress) skip(bytes int) { p.update(func() { p.read += int64(bytes) }) }

// line counts a line with a sent message.
func (p *progress) line(bytes int) {
	p.update(func() { p.read += int64(bytes); p.in++ })
}

// wait counts an awaited message.
func (p *progress) wait() { p.update(func() { p.waited++ }) }

// result counts an ended message.
func (p *progress) result() { p.update(func() { p.results++ }) }

// leave counts a message that is no longer awaited.
func (p *progress) leave() { p.update(func() { p.left++ }) }

// sent says that the whole file is read. From then on results are counted.
func (p *progress) sent() {
	p.update(func() { p.whole, p.began = true, time.Now() })
}

// end removes the line from the screen.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending != nil {
		p.pending.Stop()
	}
	p.over = true
	p.screen.Doing("")
}

func (p *progress) update(count func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	count()
	switch rest := redrawEvery - time.Since(p.drawn); {
	case p.over, p.pending != nil:
	case rest <= 0:
		p.draw()
	default:
		p.pending = time.AfterFunc(rest, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.pending = nil; !p.over {
				p.draw()
			}
		})
	}
}

func (p *progress) draw() {
	p.drawn = time.Now()
	p.screen.Doing(p.text(p.drawn.Sub(p.began)))
}

// text is the line after this much time.
func (p *progress) text(took time.Duration) string {
	part, of := float64(p.read), float64(p.size)
	count := fmt.Sprintf("%d sent", p.in)
	switch {
	case p.whole:
		part, of = float64(p.results+p.left), float64(p.waited)
		count = fmt.Sprintf("%d of %d results", p.results, p.waited)
		if p.left > 0 {
			count += fmt.Sprintf(", %d without one", p.left)
		}
	case p.waits: // the bar is of the results, and not all messages are known
		return fmt.Sprintf("%s, %d results", count, p.results)
	}
	if of <= 0 {
		return count
	}
	share := min(part/of, 1)
	full := int(share * barWidth)
	text := fmt.Sprintf("[%s%s] %3d%% %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), int(share*100), count)
	if took >= estimateAfter && share > 0 && share < 1 {
		rest := time.Duration(float64(took) * (1 - share) / share).Round(time.Second)
		text += fmt.Sprintf(", about %s left", max(rest, time.Second))
	}
	return text
}

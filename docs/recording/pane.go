//go:build linux

package main

import (
	"os"
	"slices"
	"sync"
	"time"
)

// pane is a terminal with its history: what each of its rows was, and since when.
type pane struct {
	title string
	rows  int
	clock func() time.Duration
	host  string // what must not be drawn

	mu      sync.Mutex
	screen  *screen
	history [][]version // by row
	next    chan struct{}
	closed  bool
}

// version is what a row was from a moment on.
type version struct {
	from  time.Duration
	cells []cell
}

func newPane(title string, rows int, clock func() time.Duration) *pane {
	host, err := os.Hostname()
	if err != nil {
		host = "" // then no worker is named after it
	}
	return &pane{
		title: title, rows: rows, clock: clock, host: host,
		screen: newScreen(rows), history: make([][]version, rows), next: make(chan struct{}),
	}
}

func (p *pane) prompt() { p.print("\x1b[1;32m$\x1b[0m ") }

func (p *pane) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.screen.write(text)
	now := p.clock()
	for y, row := range p.screen.rows {
		h := p.history[y]
		if len(h) == 0 && len(row) == 0 || len(h) > 0 && slices.Equal(h[len(h)-1].cells, row) {
			continue
		}
		p.history[y] = append(h, version{now, slices.Clone(row)})
	}
	close(p.next)
	p.next = make(chan struct{})
}

// changed is closed when more is printed.
func (p *pane) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

func (p *pane) shows(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.contains(text)
}

// problem is what the programs printed that cannot be drawn.
func (p *pane) problem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.err
}

// close keeps the pane as it is.
func (p *pane) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

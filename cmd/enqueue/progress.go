package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far a file is. A nil progress shows nothing.
type progress struct {
	bar          *progressbar.ProgressBar
	in, answered int
	waits        bool
}

// newProgress counts the bytes of a file; size -1: it is not known.
func newProgress(w io.Writer, size int64, waits bool) *progress {
	return &progress{
		waits: waits,
		bar: progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription("0 in"),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine that writes when it likes
			progressbar.OptionClearOnFinish(),
		),
	}
}

// hide takes it off the screen until something is shown again, so that lines can
// be written.
func (p *progress) hide() {
	if p != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) describe() {
	text := fmt.Sprintf("%d in", p.in)
	if p.waits {
		text += fmt.Sprintf(", %d answered", p.answered)
	}
	p.bar.Describe(text)
}

// lineDone, answerDone and finish tell how the work goes on.
func (o *output) lineDone(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil {
		o.progress.in++
		o.progress.describe()
		_ = o.progress.bar.Add(bytes)
	}
}

func (o *output) answerDone() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil {
		o.progress.answered++
		o.progress.describe()
	}
}

func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil {
		_ = o.progress.bar.Exit()
		_ = o.progress.bar.Clear()
		o.progress = nil
	}
}

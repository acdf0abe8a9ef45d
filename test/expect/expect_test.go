package expect

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// witness records a test's failures.
type witness struct {
	testing.TB
	said  string
	ended bool
}

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) { w.said = fmt.Sprintf(format, args...) }

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	w.ended = true
	runtime.Goexit()
}

func (w *witness) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    func(t testing.TB)
		said  string // "": it holds
		ended bool
	}{
		"no error":       {func(t testing.TB) { OK(t, nil) }, "", false},
		"error":          {func(t testing.TB) { OK(t, errors.New("bad")) }, "bad", true},
		"equal":          {func(t testing.TB) { Equal(t, "n", 1, 1) }, "", false},
		"not equal":      {func(t testing.TB) { Equal(t, "n", 1, 2) }, "n: got 1, want 2", false},
		"list":           {func(t testing.TB) { List(t, "l", []string{"a", "b"}, "a", "b") }, "", false},
		"no list":        {func(t testing.TB) { List(t, "l", nil) }, "", false},
		"another list":   {func(t testing.TB) { List(t, "l", []string{"a", "b"}, "b", "a") }, "l:", false},
		"never":          {func(t testing.TB) { Soon(t, "it", func() bool { return false }) }, "waited in vain for it", true},
		"nothing":        {func(t testing.TB) { Received(t, "it", make(chan int)) }, "waited in vain for it", true},
		"closed channel": {func(t testing.TB) { Received(t, "it", closed()) }, "the channel of it was closed", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &witness{TB: t}
				over := make(chan struct{})
				go func() {
					defer close(over)
					c.do(w)
				}()
				<-over
				if !strings.HasPrefix(w.said, c.said) || c.said == "" && w.said != "" || w.ended != c.ended {
					t.Errorf("said %q (ended: %v), want %q (%v)", w.said, w.ended, c.said, c.ended)
				}
			})
		})
	}
}

func closed() chan int {
	c := make(chan int)
	close(c)
	return c
}

func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, c := time.Now(), make(chan string, 1)
		time.AfterFunc(50*time.Second, func() { c <- "there" })
		Soon(t, "half a minute", func() bool { return time.Since(begin) >= 30*time.Second })
		Equal(t, "received", Received(t, "the text", c), "there")
		Equal(t, "waited", time.Since(begin), 50*time.Second)
	})
}

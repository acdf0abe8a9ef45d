package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// A program that rests is read up to a bound, on either stream.
func TestRestingProgramIsReadUpToABound(t *testing.T) {
	t.Parallel()
	for stream, script := range map[string]string{"stdout": "read go; exec yes", "stderr": "read go; exec yes >&2", "both": "read go; yes >&2 & exec yes"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil, script)
			talked := make(chan struct{})
			c.Rest(sync.OnceFunc(func() {
				close(talked)
				c.Interrupt(0)
			}))
			read := make(chan int64)
			go func() {
				n, err := io.Copy(io.Discard, c.Stdout)
				if err != nil && !errors.Is(err, ErrTalked) {
					t.Error(err)
				}
				read <- n
			}()
			_, err := io.WriteString(c.Stdin, "go\n")
			if err != nil {
				t.Fatal(err)
			}
			<-talked
			if n := <-read; n > MaxResting+64<<10 || stream == "stdout" && n <= MaxResting || stream == "stderr" && n > 0 {
				t.Errorf("%d bytes of stdout were read", n)
			}
			c.Wait()
			if c.EndRest() {
				t.Error("the program may go on")
			}
		})
	}
}

// Each pause has the whole bound, and output during turns does not count.
func TestEachRestIsCountedAnew(t *testing.T) {
	t.Parallel()
	var r resting
	said := ""
	half := r.reader(strings.NewReader(strings.Repeat("x", 12*MaxResting)))
	read := func(n int64) {
		t.Helper()
		if got, err := io.CopyN(io.Discard, half, n); err != nil {
			t.Fatalf("%d bytes, %v, %s", got, err, said)
		}
	}
	for i := range 3 {
		read(2 * MaxResting)
		r.begin(func() { said += fmt.Sprint("talked in pause ", i, "\n") })
		read(MaxResting)
		if !r.end() {
			t.Errorf("pause %d is over", i)
		}
	}
	r.begin(func() { said += "talked" })
	if _, err := io.CopyN(io.Discard, half, 2*MaxResting); !errors.Is(err, ErrTalked) || said != "talked" || r.end() {
		t.Errorf("%v, %q", err, said)
	}
}

package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/internal/program/config"
	"turnstile/test/expect"
)

var gap = regexp.MustCompile(`^(?:time=\S+ level=WARN msg="log lines were left out: nobody read the log" lines=(\d+)|` +
	`\{"time":"[^"]+","level":"WARN","msg":"log lines were left out: nobody read the log","lines":(\d+)\})$`)

// Whoever logs never waits for the reader. The reader who comes back reads whole lines, in their order, and how
// many are missing, at their place and in the log's format.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format config.LogFormat
		bytes  int // of a line
		lines  int
	}{
		"text":                         {config.LogText, 1000, 3000},
		"JSON":                         {config.LogJSON, 1000, 3000},
		"lines longer than the buffer": {config.LogText, 2 * outputBytes, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				defer r.Close()
				o := NewOutput(w)
				o.format = c.format
				log := slog.New(newHandler(o, slog.LevelInfo, c.format))
				expect.Equal(t, "wait before the first line", o.Blocked(), 0)
				text := strings.Repeat("x", c.bytes)
				for i := range c.lines {
					log.Info(text, "n", i) //nolint:sloglint // a text of a known length
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				expect.Equal(t, "wait for a reader", o.Blocked(), time.Minute)
				start := time.Now()
				Flush(LastWords, o)
				expect.Equal(t, "wait for a reader of last words", time.Since(start), LastWords)
				left := int(o.LeftOut())
				if most := 2*outputBytes/c.bytes + 2; left < c.lines-most || left == 0 {
					t.Errorf("%d of %d lines are left out: it keeps too much", left, c.lines)
				}

				lines := bufio.NewScanner(r)
				lines.Buffer(nil, 4*outputBytes)
				for i := 0; lines.Scan(); i++ {
					if found := gap.FindStringSubmatch(lines.Text()); found != nil {
						expect.Equal(t, "lines in the gap", found[1]+found[2], strconv.Itoa(left))
						expect.Equal(t, "lines before and in it", i+left, c.lines)
						break
					}
					if end := lines.Text()[max(0, len(lines.Text())-30):]; !regexp.MustCompile(fmt.Sprintf(`x\W.*\bn\W{1,2}%d\b`, i)).MatchString(end) {
						t.Fatalf("line %d ends with %q", i, end)
					}
				}
				log.Info("after")
				if !lines.Scan() || !strings.Contains(lines.Text(), "after") {
					t.Errorf("the line after the gap is %.200q (%v)", lines.Text(), lines.Err())
				}
				Flush(LastWords, o)
				expect.Equal(t, "wait for a reader who is back", o.Blocked(), 0)
				expect.Equal(t, "lines left out", int(o.LeftOut()), left)
			})
		})
	}
}

// A gap after a prompt begins a new line.
func TestGapAfterAPrompt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := NewOutput(w)
		for _, text := range []string{"being written\n", strings.Repeat("x", outputBytes-2), "> ", "left out", "left\nout\n"} {
			_, _ = io.WriteString(o, text)
			synctest.Wait()
		}
		go func() {
			Flush(time.Hour, o)
			_ = w.Close()
		}()
		text, err := io.ReadAll(r)
		expect.OK(t, err)
		_, rest, _ := bytes.Cut(text, []byte("x> \n"))
		if found := gap.FindSubmatch(bytes.TrimSuffix(rest, []byte("\n"))); found == nil || string(found[1]) != "3" {
			t.Errorf("after the prompt comes %.200q", text[max(0, len(text)-200):])
		}
	})
}

// Libraries that use package log do not wait for the reader for long, and log.Fatal is read.
func TestPackageLog(t *testing.T) { //nolint:paralleltest // it changes the output of package log
	was, stderr := stdlog.Writer(), new(bytes.Buffer)
	defer stdlog.SetOutput(was)
	stdlog.SetOutput(stderr)
	NewOutput(new(bytes.Buffer))
	expect.Equal(t, "the writer is still stderr", stdlog.Writer() == io.Writer(stderr), true)
	NewOutput(stderr)
	stdlog.Print("the last words of log.Fatal")
	if !strings.Contains(stderr.String(), "the last words of log.Fatal\n") {
		t.Errorf("a line is written late: %q", stderr)
	}
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer r.Close()
		stdlog.SetOutput(w)
		NewOutput(w)
		start := time.Now()
		for range 10 {
			stdlog.Print("nobody reads it")
		}
		expect.Equal(t, "wait of 10 lines", time.Since(start), moment)
	})
}

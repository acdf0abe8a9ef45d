package command

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStderr(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := stderrTail{logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s.copyFrom(iotest.OneByteReader(strings.NewReader(strings.Repeat("long ", 2000) + "\nzero\nthree\none\r\n\ntwo\n \n")))
	if s.last() != "three\none\ntwo" || len(s.tail) > stderrKept {
		t.Errorf("last %q, %d bytes kept", s.last(), len(s.tail))
	}
	for _, want := range []string{"line=one\n", "line=two\n", "long long"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log", want)
		}
	}
	s = stderrTail{logger: slog.New(slog.DiscardHandler)}
	s.copyFrom(strings.NewReader(strings.Repeat("ä", stderrKept)))
	if last := s.last(); strings.Trim(last, "ä") != "" || last == "" {
		t.Errorf("last %q", last)
	}
}

package command

import (
	"io"
	"log/slog"
	"os"
	"testing"
	"time"
)

// BenchmarkProgram measures a program that does nothing: the guardian, the pipes and the wait for
// its end.
func BenchmarkProgram(b *testing.B) {
	held := leased(b, time.Hour)
	for b.Loop() {
		c, err := Start(Spec{Argv: []string{"true"}, Env: os.Environ(), Lease: held, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		_ = c.Stdin.Close()
		_, _ = io.Copy(io.Discard, c.Stdout)
		if status := c.Wait(); Unfit(status) != nil || status.Code != 0 {
			b.Fatal(status)
		}
		c.CloseOutput()
	}
}

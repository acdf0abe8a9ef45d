package exec

import (
	"testing"

	"turnstile/pkg/agent"
)

func BenchmarkRun(b *testing.B) {
	a, err := New(Config{Command: []string{"echo", "hi"}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.Run(b.Context(), &agent.Turn{}); err != nil {
			b.Fatal(err)
		}
	}
}

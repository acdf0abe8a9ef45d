package defects_test

import (
	"testing"

	"turnstile/chaos/internal/defects"
)

// Every defect still fits the tree.
func TestDefectsFit(t *testing.T) {
	t.Parallel()
	all, err := defects.Load("../../defects.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Errorf("%d defects, want 10 at least", len(all))
	}
	for _, d := range all {
		if _, err := d.Overlay("../../..", t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

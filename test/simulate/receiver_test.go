package simulate

import (
	"strconv"
	"testing"
)

// The receiver postpones a delivery once, whether or not it refused it before.
func TestReceiverIsBusyOnce(t *testing.T) {
	t.Parallel()
	r, err := newReceiver(&life{seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	busy := 0
	for i := range 100 {
		id := strconv.Itoa(i)
		refused := r.refuses(id)
		if r.isBusy(id) {
			busy++
		}
		if r.isBusy(id) || r.refuses(id) != refused {
			t.Errorf("%s is put off twice, or was refused once: %v", id, refused)
		}
	}
	if busy == 0 || busy == 100 {
		t.Errorf("%d of 100 are put off", busy)
	}
}

package openai_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"turnstile/internal/http/openai"
	"turnstile/test/expect"
)

// A number depends on the stored event and on the message's acceptance, and not on earlier reads.
func TestNumbers(t *testing.T) {
	t.Parallel()
	accepted := time.UnixMilli(1795227266293)
	ids := []string{
		"1795227266293-0.0", "1795227266293-0.1", "1795227266293-1.0", "1795227266293-4095.9", "1795227266294-0.0",
		"1795227270000-0.0", "1799000000000-0.0",
	}
	all := openai.Numbers(accepted, ids, 3)
	expect.Equal(t, "first", all[0], 1<<21)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			t.Errorf("%d behind %d", all[i], all[i-1])
		}
	}
	for i := range ids {
		expect.Equal(t, "trimmed before "+ids[i], fmt.Sprint(openai.Numbers(accepted, ids[i:], 3)), fmt.Sprint(all[3*i:]))
	}
	// The order survives a clock that is set back, more events than numbers for one stored event, and a
	// message of 1970.
	odd := openai.Numbers(accepted, []string{"1795227266292-0.0", "1795227266293-9999.0", "1795227266293-99999.0", "1795227266294-0.0", "1795227266293-0.0"}, 100)
	odd = append(odd, openai.Numbers(time.UnixMilli(0), ids, 3)...)
	if !slices.IsSorted(odd[:500]) || !slices.IsSorted(odd[500:]) || odd[len(odd)-1] >= 1<<53 {
		t.Errorf("%v", odd)
	}
	if len(slices.Compact(slices.Clone(odd[:500]))) != 500 {
		t.Error("a number was given twice")
	}
}

package script_test

import (
	"testing"
	"time"

	"turnstile/internal/redis/script"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestResultsAreReadByName(t *testing.T) {
	t.Parallel()
	f := script.Result{"7", int64(1500), nil, []any{"a"}}.Named("fence", "left", "owner", "list", "newer")
	expect.Equal(t, "fence", f.Int("fence"), 7)
	expect.Equal(t, "left", f.Millis("left"), 1500*time.Millisecond)
	expect.Equal(t, "list", f.List("list").Text(0), "a")
	for _, name := range []string{"owner", "newer"} {
		if f.Has(name) || f.Text(name) != "" || f.Bool(name) {
			t.Errorf("%s is there", name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown name is read as a field")
		}
	}()
	f.Text("fense")
}

func TestHashFieldsAreReadByName(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	expect.OK(t, rdb.HSet(t.Context(), "h", "worker", "w", "fence", "8").Err())
	f := script.HashFields(rdb.HMGet(t.Context(), "h", "fence", "none", "worker"))
	expect.Equal(t, "worker", f.Text("worker"), "w")
	expect.Equal(t, "fence", f.Int("fence"), 8)
	if f.Has("none") {
		t.Error("the hash has no such field")
	}
}

package protocol_test

import (
	"strings"
	"testing"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
)

func TestFollowups(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	key := rediskey.For("s").Followups()
	waits := func(id string) {
		if err := rdb.HSet(t.Context(), rediskey.For("s").Task(rediskey.TaskID("s", id)), "state", "pending", "seq", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for order, id := range []string{"first", "second"} {
		entry := `{"id":"` + id + `","text":"<` + id + `>"}`
		// As the ring script writes it.
		entry = `{"mode":"queue","order":` + string(rune('2'+order)) + `,"arrived_at":1795227266293,"state":"queued",` + strings.TrimPrefix(entry, "{")
		if err := rdb.HSet(t.Context(), key, id, entry).Err(); err != nil {
			t.Fatal(err)
		}
		waits(id)
	}
	for id, entry := range map[string]string{
		"third": `{"refused":"full","nonce":"x","cap":2}`, "fourth": `{"id":"fourth"}`, "fifth": `{"id":"fifth"}`, "sixth": `{"id":"sixth"}`,
	} {
		if err := rdb.HSet(t.Context(), key, id, entry).Err(); err != nil {
			t.Fatal(err)
		}
	}
	waits("third")
	for id, state := range map[string]string{"fourth": "archived", "fifth": "pending"} { // not announced; the sixth is gone
		if err := rdb.HSet(t.Context(), rediskey.For("s").Task(rediskey.TaskID("s", id)), "state", state).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := actors.NewClient(rdb).Followups(t.Context(), "s")
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := session.Followup{ID: "second", Text: "<second>", Mode: session.ModeQueue, State: session.FollowupQueued, Order: 3, ArrivedAt: 1795227266293}
	if got[0].ID != "first" || got[1] != want {
		t.Errorf("got %+v", got)
	}
	if err := rdb.HSet(t.Context(), key, "broken", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := actors.NewClient(rdb).Followups(t.Context(), "s"); err != nil || len(got) != 2 {
		t.Errorf("a broken entry hides the others: %+v, %v", got, err)
	}
}

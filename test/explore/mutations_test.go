package explore_test

import (
	"slices"
	"testing"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/mutation"
)

// Each mutation is found by the configuration that it names, which finds nothing, or something
// else, in the real scripts.
func TestMutations(t *testing.T) {
	searches(t, whole, long)
	mutations, err := mutation.Load("testdata/mutations.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutations) < 20 {
		t.Fatalf("%d mutations only", len(mutations))
	}
	for _, m := range mutations {
		t.Run(m.Name, func(t *testing.T) {
			sources, err := m.Apply()
			if err != nil {
				t.Fatal(err)
			}
			c := found(t, m.Head["explore"])
			c.Most = 50_000 // a fault may make endless states
			db := database(t)
			db.Replace(sources)
			s := search(t, db, &c.Configuration)
			if len(s.Findings) == 0 || s.Findings[0].What == c.Finds {
				t.Fatalf("%s: nothing is found in %s", m.Head["why"], c.Name)
			}
			t.Logf("%s: %s", m.Head["why"], s.Findings[0].What)
		})
	}
}

// Go's decisions cannot be mutated in Lua, so these tests change commands before they are sent.
func TestForgottenIndexEntries(t *testing.T) {
	searches(t, whole, long)
	for _, forgotten := range []struct {
		indexes       []string
		configuration string
	}{
		{[]string{rediskey.Ready}, "no-timers"},
		{[]string{rediskey.Owned}, "crash-without-sweep"},
		{[]string{rediskey.Due}, "delayed-without-sweep"},
		{[]string{rediskey.Sessions, rediskey.AllQueues}, "forgotten-send"},
		{[]string{rediskey.Outbox}, "outbox-unheard"},
		{[]string{rediskey.Sessions}, "forgotten-title"},
		{[]string{rediskey.Sessions, rediskey.AllQueues}, "forgotten-plain"},
	} {
		t.Run(forgotten.configuration, func(t *testing.T) {
			c := found(t, forgotten.configuration)
			db := database(t)
			if s := search(t, db, &c.Configuration); len(s.Findings) > 0 {
				t.Fatalf("found without a fault in the program: %s", s.Findings[0])
			}
			c.Filter = func(name string, cmd []string) []string {
				if (name == "zadd" || name == "sadd") && slices.Contains(forgotten.indexes, cmd[1]) {
					return []string{"exists", "nothing"}
				}
				return cmd
			}
			s := search(t, db, &c.Configuration)
			if len(s.Findings) == 0 {
				t.Fatal("nothing is found")
			}
			t.Log(s.Findings[0].What)
		})
	}
}

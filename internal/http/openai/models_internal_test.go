package openai

import (
	"testing"

	"turnstile/pkg/admin"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// While no worker lives, as in a restart, the names that were seen before still name agents.
func TestAgentsAreRemembered(t *testing.T) {
	t.Parallel()
	l := liveAgents{workers: []admin.Worker{{}}, names: []string{"writer"}}
	names, err := l.namesOf(t.Context(), admin.NewClient(redistest.New(t)))
	expect.OK(t, err)
	expect.List(t, "names", names, "writer")
}

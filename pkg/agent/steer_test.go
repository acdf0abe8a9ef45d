package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"turnstile/pkg/session"
)

func TestSteerIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	n := 0
	s := NewSteer(session.Message{ID: "m2"}, func() { n++ })
	other := s
	s.Accept()
	other.Accept()
	if n != 1 || s.Message.ID != "m2" {
		t.Errorf("accepted %d times", n)
	}
	Steer{}.Accept()
	NewSteer(session.Message{}, nil).Accept()
}

// Adapters encode the turn as JSON.
func TestSteersAreNoPartOfTheTurnsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(&Turn{Host: Host{Steers: make(chan Steer)}})
	if err != nil || strings.Contains(strings.ToLower(string(data)), "steer") {
		t.Errorf("%s, %v", data, err)
	}
}

package agent

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSteerIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	n := 0
	s := NewSteer(Message{ID: "m2"}, func() { n++ })
	other := s
	s.Accept()
	other.Accept()
	if n != 1 || s.Message.ID != "m2" {
		t.Errorf("accepted %d times", n)
	}
	Steer{}.Accept()
	NewSteer(Message{}, nil).Accept()
}

// Adapters hand the turn on as JSON.
func TestSteersAreNoPartOfTheTurnsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Turn{Steers: make(chan Steer)})
	if err != nil || strings.Contains(strings.ToLower(string(data)), "steer") {
		t.Errorf("%s, %v", data, err)
	}
}

func TestCleanTitle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", MaxTitle)
	for text, want := range map[string]string{
		"The build":                "The build",
		" The\n build\t":           "The build",
		" \n":                      "",
		long:                       long,
		long + "x":                 long,
		long[:len(long)-2] + " xy": long[:len(long)-2],
	} {
		got := CleanTitle(text)
		if got != want || CleanTitle(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

package protocol_test

import (
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The end of a turn bounds the transcript when the turn has written much, with every 32nd entry,
// and always beyond the cap. In the last case it does not measure the transcript.
func TestWhenATranscriptIsBounded(t *testing.T) {
	t.Parallel()
	c, err := protocol.NewConsumer(redistest.New(t), protocol.Config{Worker: "w", TranscriptCap: 100, TranscriptBytes: 5000})
	expect.OK(t, err)
	two, large := []string{"12345", "67890"}, []string{strings.Repeat("x", 64<<10)}
	for _, turn := range []struct {
		before  int64
		entries []string
		want    string
	}{
		{0, two, ""},
		{29, two, ""},
		{30, two, "100 5000 10"},
		{31, two, "100 5000 10"},
		{32, two, ""},
		{0, large, "100 5000 65536"},
		{98, two, ""},
		{99, two, "100 5000 0"},
		{126, two, "100 5000 10"},
		{0, nil, ""},
		{32, nil, ""},
		{200, nil, "100 5000 0"},
	} {
		expect.Equal(t, "bounds", protocol.Bounds(c, turn.before, turn.entries), turn.want)
	}
}

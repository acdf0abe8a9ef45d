package exec

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"turnstile/pkg/agent"
)

// However the pipe splits the text, no character breaks and the newlines at the end are dropped.
func TestTextReplyBoundaries(t *testing.T) {
	t.Parallel()
	const in, want = "aä€😀\n\nb\r\n€\n\r\n\n", "aä€😀\n\nb\r\n€"
	for name, r := range map[string]io.Reader{
		"whole":         strings.NewReader(in),
		"bytes":         iotest.OneByteReader(strings.NewReader(in)),
		"data with EOF": iotest.DataErrReader(strings.NewReader(in)),
	} {
		got := ""
		reply := textReply{emit: func(e agent.Event) {
			if strings.ContainsRune(e.Text, '\uFFFD') || e.Text == "" {
				t.Errorf("%s: piece %q", name, e.Text)
			}
			got += e.Text
		}}
		if err := reply.copyFrom(r); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestTextReplyHoldsFewNewlines(t *testing.T) {
	t.Parallel()
	in := strings.Repeat("\n", 2*heldNewlines) + "x"
	got := ""
	reply := textReply{emit: func(e agent.Event) { got += e.Text }}
	for i := range in {
		if err := reply.write([]byte(in[i : i+1])); err != nil || len(reply.held) > heldNewlines {
			t.Fatalf("%d bytes are held back, error %v", len(reply.held), err)
		}
	}
	if got != in {
		t.Errorf("%d bytes of %d came through", len(got), len(in))
	}
}

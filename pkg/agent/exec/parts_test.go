package exec

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"turnstile/pkg/agent"
)

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`claude -p`:                         {"claude", "-p"},
		"  a \t b\n":                        {"a", "b"},
		`sh -c 'echo "$X" | tee out; true'`: {"sh", "-c", `echo "$X" | tee out; true`},
		`a "b c"d'e f' ""  ''`:              {"a", "b cde f", "", ""},
		`a\ b \"c \\`:                       {"a b", `"c`, `\`},
		`"a\"b\\c\$d\n" '\'`:                {`a"b\c$d\n`, `\`},
		"a\\\nb \"c\\\nd\" \\\n e":          {"ab", "cd", "e"},
		`$HOME ~ * #x ä`:                    {"$HOME", "~", "*", "#x", "ä"},
		`x '|' "<>" \; \&`:                  {"x", "|", "<>", ";", "&"},
	} {
		if got, err := SplitCommand(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"", "  ", `a 'b`, `a "b`, `a "b\"`, `a \`, "a | b", "a; b", "a > b", "a && b", "(a)", "a <b"} {
		if got, err := SplitCommand(line); err == nil {
			t.Errorf("%q: no error, but %q", line, got)
		}
	}
}

// However the pipe cuts it, no character is torn and the newlines at the end go.
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

// Not parallel: it counts what the whole process has.
func TestNothingLeaks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts in /proc/self/fd")
	}
	count := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	run := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for _, config := range []Config{
			{Command: []string{"cat"}},
			{Command: shell("exit 3")},
			{Command: shell("sleep 1000"), Grace: -1},
			{Command: []string{"no-such-program-anywhere"}},
			{Command: []string{"/"}},
			{Command: shell("echo bad; sleep 1000"), Format: JSONL},
		} {
			_, _ = runText(ctx, newAgent(t, config), turn(t, "hi"))
			_, _ = runText(t.Context(), newAgent(t, Config{Command: []string{"cat"}}), turn(t, "hi"))
		}
	}
	run()
	before := count()
	for range 3 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d files are open, before it were %d", after, before)
	}
}

func BenchmarkRun(b *testing.B) {
	a, err := New(Config{Command: []string{"echo", "hi"}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.Run(b.Context(), agent.Turn{}, func(agent.Event) {}); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleSplitCommand() {
	words, err := SplitCommand(`sh -c 'cat | tr a-z A-Z'`)
	fmt.Printf("%q %v\n", words, err)
	// Output: ["sh" "-c" "cat | tr a-z A-Z"] <nil>
}

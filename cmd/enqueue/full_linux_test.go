package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
)

// If stdout takes nothing, because the disk is full or its reader has ended, stderr says what is stored, and with
// which id a repetition is none.
func TestStdoutTakesNothing(t *testing.T) {
	t.Parallel()
	two := `{"session":"a","text":"one"}` + "\n" + `{"session":"a","id":"own","text":"two"}` + "\n"
	stored := regexp.MustCompile(`stored as (\S+); repeat it only with (\S+ ?\S+)\n`)
	for _, c := range []struct {
		args, stdin string
		ids         int
	}{
		{"-s a hello", "", 1},
		{"-s a --json hello", "", 1},
		{"-s a --wait hello", "", 1},
		{"-s a --follow hello", "", 1},
		{"-s a --follow --json hello", "", 1},
		{"-s a --id own hello", "", 1},
		{"--file -", two, 2},
		{"--file - --json", two, 2},
		{"--file - --wait", two, 2},
		{"--file - --follow --json", two, 2},
		{"-s a /title hello", "", 0},
	} {
		for _, piped := range []bool{false, true} {
			t.Run(c.args, func(t *testing.T) {
				t.Parallel()
				url, _ := newRedis(t)
				turns(t, url, hour, echo)
				var said bytes.Buffer
				cmd := exec.CommandContext(t.Context(), program.Build(t, "turnstile/cmd/enqueue"), strings.Fields(c.args)...)
				cmd.Env, cmd.Stdin, cmd.Stderr = []string{"REDIS_URL=" + url}, strings.NewReader(c.stdin), &said
				full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
				expect.OK(t, err)
				cause := "no space left on device"
				if piped {
					reader, writer, err := os.Pipe()
					expect.OK(t, err)
					expect.OK(t, reader.Close())
					full, cause = writer, "broken pipe"
				}
				cmd.Stdout = full
				defer full.Close()
				_ = cmd.Run() // the exit code tells
				if code := cmd.ProcessState.ExitCode(); code != exitOther && (!piped || code != exitInterrupted) || !strings.Contains(said.String(), "enqueue: stdout: write /dev/stdout: "+cause) {
					t.Errorf("exit code %d, stderr %q", code, said.String())
				}
				ids := map[string]bool{}
				for _, m := range stored.FindAllStringSubmatch(said.String(), -1) {
					ids[m[1]] = true
					if !strings.Contains(m[2], m[1]) {
						t.Errorf("%q says how to repeat another message", m[0])
					}
					if c.stdin == "" { // as it says
						again := enqueue(t, bg(t), url, "", append(strings.Fields(m[2]), "-s", "a", "hello")...).want(t, exitOK)
						expect.Equal(t, "again", strings.HasPrefix(again.out, "duplicate: "+m[1]), true)
					}
				}
				if len(ids) != c.ids && (!piped || len(ids) == 0 || !strings.Contains(said.String(), "not sent: ")) {
					t.Errorf("%d ids, want %d: %q", len(ids), c.ids, said.String())
				}
				expect.Equal(t, "commands", strings.Contains(said.String(), "the command was carried out"), c.ids == 0)
			})
		}
	}
}

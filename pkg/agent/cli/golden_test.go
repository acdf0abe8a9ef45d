package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/session"
)

// TestGolden plays streams of the programs and compares the events with the .golden next to each.
// made, limit and command are written by hand, in shapes from the programs' pages and sources. The
// tests of the real programs recorded all others. A .rollout has the lines that Codex wrote to its
// own file in the turn.
func TestGolden(t *testing.T) {
	t.Parallel()
	exits := map[string]int{"claude/refused": 1, "claude/unknown": 1, "claude/limit": 1, "codex/refused": 1, "gemini/refused": 144}
	before := map[string]session.Usage{ // Codex's earlier count
		"codex/bubblewrap": {InputTokens: 18, CachedTokens: 5, OutputTokens: 7},
		"codex/tool":       {InputTokens: 18, CachedTokens: 5, OutputTokens: 7},
		"codex/resume":     {InputTokens: 54, CachedTokens: 15, OutputTokens: 21},
		"codex/refused":    {InputTokens: 72, CachedTokens: 20, OutputTokens: 28},
	}
	files, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(files) < 16 {
		t.Fatalf("%d streams, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(name, "/")
			command, _ := fakeProgram(t, play{File: name + ".jsonl", Exit: exits[name]})
			if rollout := strings.TrimSuffix(file, "jsonl") + "rollout"; exists(rollout) {
				command = withRollout(t, rollout, threadOf(t, file), command)
			}
			tn := turn("hello")
			if total, ok := before[name]; ok {
				tn.State = encoded(state{Agent: Kind(kind), Session: threadOf(t, file), Total: &total})
			}
			got := playTurn(t, newAgent(t, Kind(kind), Config{Command: command, Model: "configured"}), tn)
			var text bytes.Buffer
			lines := json.NewEncoder(&text)
			lines.SetEscapeHTML(false)
			for _, e := range got.events {
				if err := lines.Encode(e); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintf(&text, "reply: %q\nerror: %v\n", got.reply, got.err)
			golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
			if os.Getenv("TURNSTILE_TEST_RECORD") != "" {
				if err := os.WriteFile(golden, text.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if text.String() != string(want) {
				t.Errorf("got\n%swant\n%s", &text, want)
			}
		})
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// withRollout is a Codex that also writes the thread's rollout.
func withRollout(t *testing.T, file, thread string, command []string) []string {
	t.Helper()
	from, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := strconv.ParseInt(strings.ReplaceAll(thread, "-", "")[:12], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	to := filepath.Join(home, "sessions", time.UnixMilli(ms).UTC().Format("2006/01/02"), "rollout-"+thread+".jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return append([]string{
		"env", "CODEX_HOME=" + home, "sh", "-c", `cat "$1" >>"$2" && shift 2 && exec "$@"`, "sh", from, to,
	}, command...)
}

func threadOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var started struct {
		ThreadID string `json:"thread_id"`
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if err := json.Unmarshal(first, &started); err != nil {
		t.Fatal(err)
	}
	return started.ThreadID
}

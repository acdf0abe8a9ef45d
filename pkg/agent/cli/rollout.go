package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"turnstile/internal/process/command"
)

// rolloutPatience is how long a message of the stream is held until the rollout has it, too. Codex
// mostly writes the rollout first.
const rolloutPatience = 250 * time.Millisecond

// maxRollouts is how many names of a day's directory are read. maxNames is how many are read in a
// turn, which searches again with each message until it has found its own.
const (
	maxRollouts = 100_000
	maxNames    = 10 * maxRollouts
)

// maxAgain is how many bytes of incomplete lines a turn may read again.
const maxAgain = 4 * command.MaxOutput

// rollout reads the lines that a turn adds to the file of a Codex thread.
//
// The stream of codex exec leaves out commands that the sandbox denies at once (all of them, if the
// sandbox itself fails), and commands and patches that are refused (openai/codex issues 46246 and
// 47433). The model receives the failure, so the rollout has it.
//
// The agent can write the file. So only regular files are read, and no more of them than of a
// program's output. No link leads out of Codex's directory, or out of the HOME of an isolated agent.
type rollout struct {
	home   string // Codex's own; empty: unknown
	root   string // beneath which it is read: home, or a directory above it
	thread string
	file   string // once it was found

	at       int64 // how much of the file was read, or existed before the turn
	budget   int64 // how much more of it may be read
	size     int64 // its size at the last read
	again    int64 // how many bytes of incomplete lines were read
	names    int   // how many names of files were read
	items    map[string]bool
	itemised bool // it has items: earlier versions of Codex wrote none
	messages int  // the agent's messages so far
	calls    map[string]codexCall
	failed   []codexCall
	late     bool // it lacked a message in time, and is not awaited again
}

// codexCall is a call of a tool by the model.
type codexCall struct {
	id, name, input string
	failure         codexItem
	before          int // how many messages came before its result
}

// newRollout begins at the present end of the rollout of a resumed thread, or at the beginning of
// that of a new one, which has no ID yet. If the rollout of a resumed thread does not exist now,
// the part that this turn adds could not be separated from the rest, so none of it is read.
func newRollout(spec command.Spec, resumed string) *rollout {
	home, root := homeOf(spec, "CODEX_HOME", ".codex")
	r := &rollout{
		home: home, root: root, thread: resumed, budget: command.MaxOutput, items: map[string]bool{}, calls: map[string]codexCall{},
	}
	f, err := r.open(r.path(), syscall.O_NOFOLLOW)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			r.at = info.Size()
		}
		_ = f.Close()
	}
	if err != nil && resumed != "" {
		r.home = ""
	}
	return r
}

// open opens a file or directory beneath the root.
func (r *rollout) open(path string, flags int) (*os.File, error) {
	return openBeneath(r.root, path, flags)
}

// of sets the ID of a new thread.
func (r *rollout) of(thread string) { r.thread = cmp.Or(r.thread, thread) }

// path is the file; empty: there is none.
func (r *rollout) path() string {
	if r.file == "" && r.home != "" {
		r.file = r.find()
	}
	return r.file
}

// find searches the directory of the day on which the thread began, in Codex's time zone. The
// thread's ID has the time (UUID version 7).
func (r *rollout) find() string {
	digits := strings.ReplaceAll(r.thread, "-", "")
	if len(digits) != 32 || digits[12] != '7' {
		return ""
	}
	ms, err := strconv.ParseInt(digits[:12], 16, 64)
	if err != nil {
		return ""
	}
	for _, days := range []int{0, -1, 1} {
		day := time.UnixMilli(ms).UTC().AddDate(0, 0, days).Format("2006/01/02")
		dir := filepath.Join(r.home, "sessions", filepath.FromSlash(day))
		if name := r.among(dir); name != "" {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// among is the name of the thread's rollout in a directory, or empty. The directory may be missing,
// be a pipe, or have too many files.
func (r *rollout) among(dir string) string {
	d, err := r.open(dir, syscall.O_DIRECTORY)
	if err != nil {
		return ""
	}
	defer func() { _ = d.Close() }()
	for seen := 0; seen < maxRollouts && r.names < maxNames; {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if strings.HasPrefix(name, "rollout-") && strings.HasSuffix(name, "-"+r.thread+".jsonl") {
				return name
			}
		}
		seen, r.names = seen+len(names), r.names+len(names)
		if err != nil {
			return ""
		}
	}
	return ""
}

// missing are the calls that failed before the turn's nth message and are not in the stream; with n
// 0, all that failed. Each is returned once.
func (r *rollout) missing(n int) (calls []codexCall) {
	path := r.path()
	if path == "" || !r.read(path) {
		return nil
	}
	for end := time.Now().Add(rolloutPatience); r.messages < n && !r.late; {
		time.Sleep(rolloutPatience / 100)
		r.late = !r.read(path) || time.Now().After(end)
	}
	var later []codexCall
	for _, call := range r.failed {
		switch {
		case r.items[call.id] || !r.itemised:
		case n > 0 && call.before >= n:
			later = append(later, call)
		default:
			calls = append(calls, call)
		}
	}
	r.failed = later
	return calls
}

// read takes the lines that were added.
func (r *rollout) read(path string) bool {
	f, err := r.open(path, syscall.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < r.at {
		return false
	}
	if info.Size() == r.size {
		return true
	}
	r.size = info.Size()
	added := io.NewSectionReader(f, r.at, r.budget)
	lines, begun := bufio.NewScanner(added), r.at
	lines.Buffer(nil, command.MaxLine)
	lines.Split(func(data []byte, _ bool) (int, []byte, error) {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			return 0, nil, nil // it is still being written
		}
		return end, data[:end], nil
	})
	for lines.Scan() {
		size := int64(len(lines.Bytes()))
		r.at, r.budget = r.at+size, r.budget-size
		r.line(lines.Bytes())
	}
	read, _ := added.Seek(0, io.SeekCurrent)
	r.again += read - (r.at - begun)
	if lines.Err() != nil || r.again > maxAgain {
		r.home, r.file = "", "" // a line that is too long, for example: nothing after it can be read
	}
	return r.file != ""
}

// line takes a line of the rollout. It ignores lines of an unknown shape.
func (r *rollout) line(data []byte) {
	if !bytes.Contains(data, []byte(`_call`)) && !bytes.Contains(data, []byte(`"item_completed"`)) {
		return
	}
	var l struct {
		Payload struct {
			Type      string          `json:"type"`
			CallID    string          `json:"call_id"`
			Name      string          `json:"name"`
			Arguments string          `json:"arguments"`
			Input     string          `json:"input"`
			Output    json.RawMessage `json:"output"`
			Item      struct {
				Type string `json:"type"`
				ID   string `json:"id"`
			} `json:"item"`
		} `json:"payload"`
	}
	if json.Unmarshal(data, &l) != nil {
		return
	}
	switch p := l.Payload; p.Type {
	case "item_completed":
		r.itemised = true
		r.items[p.Item.ID] = true
		if p.Item.Type == "AgentMessage" {
			r.messages++
		}
	case "function_call", "custom_tool_call":
		r.calls[p.CallID] = codexCall{id: p.CallID, name: p.Name, input: p.Arguments + p.Input}
	case "function_call_output", "custom_tool_call_output":
		call, known := r.calls[p.CallID]
		delete(r.calls, p.CallID)
		if call.failure = failureOf(call.name, plain(p.Output)); known && call.failure.Status != "" {
			call.before = r.messages
			r.failed = append(r.failed, call)
		}
	}
}

// exited matches a command's exit code in the text that the model receives.
var exited = regexp.MustCompile(`(?m)^Process exited with code (-?\d+)$`)

// refused matches the text that the model receives for a call that no tool has taken.
var refused = regexp.MustCompile(`^(unsupported call|unsupported custom tool call|failed to parse function arguments): `)

// failureOf is the failure of a tool, from the text that the model received. It has no status if
// the tool did not fail or nothing is known.
func failureOf(name, told string) codexItem {
	about, output, ran := strings.Cut(told, "\nOutput:\n")
	switch code := exited.FindStringSubmatch(about); {
	case ran && code != nil && code[1] != "0":
		n, _ := strconv.Atoi(code[1])
		return codexItem{Status: "failed", ExitCode: &n, Output: output}
	case !ran && (name == "exec_command" || name == "apply_patch" || refused.MatchString(told)):
		return codexItem{Status: "failed", Output: told}
	}
	return codexItem{}
}

// tool is the name and the input that the stream would have for the call.
func (c codexCall) tool() (name string, input json.RawMessage) {
	if c.name != "exec_command" {
		if json.Valid([]byte(c.input)) {
			return c.name, json.RawMessage(c.input)
		}
		return c.name, encoded(c.input)
	}
	return codexItem{Type: "command_execution", Command: c.command()}.tool()
}

// command is the command of the call, or else its arguments.
func (c codexCall) command() string {
	var arguments struct {
		Cmd string `json:"cmd"`
	}
	if json.Unmarshal([]byte(c.input), &arguments) != nil || arguments.Cmd == "" {
		return c.input
	}
	return arguments.Cmd
}

// bare removes a shell's quotes from a command.
var bare = strings.NewReplacer(`'`, "", `"`, "", `\`, "")

// runs reports whether a command of the stream, which includes the shell, is this call's.
func (c codexCall) runs(stream string) bool {
	return strings.HasSuffix(bare.Replace(stream), bare.Replace(c.command()))
}

// String is the call as the user reads it.
func (c codexCall) String() string {
	_, failure := c.failure.result()
	return fmt.Sprintf("%s failed: %s: %s", c.name, c.command(), failure)
}

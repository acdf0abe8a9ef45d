package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"turnstile/internal/process/command"
	"turnstile/internal/process/confine"
	"turnstile/internal/process/workspace"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// realProgram is how a test runs one of the real programs against scripted models.
type realProgram struct {
	kind    Kind
	tool    string // the name of the tool that the models use
	options []string
	env     func(url, home string) []string
	files   func(url string) map[string]string // in home
}

// twoNumbers are those of processes.
var twoNumbers = regexp.MustCompile(`\d+ \d+`)

const lostID = "00000000-0000-4000-8000-000000000000"

var reals = []realProgram{
	{
		kind: Claude, tool: "Bash", options: []string{"--allowedTools", "Bash"},
		env: func(url, _ string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-ant-dummy"}
		},
	},
	{
		kind: Codex, tool: "command_execution",
		env: func(_, home string) []string {
			return []string{"CODEX_HOME=" + home + "/.codex", "OPENAI_API_KEY=dummy"}
		},
		files: func(url string) map[string]string {
			return map[string]string{".codex/config.toml": `
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "` + url + `/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0
`}
		},
	},
	{
		kind: Gemini, tool: "list_directory",
		env: func(url, _ string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=dummy"}
		},
		files: func(string) map[string]string {
			return map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`}
		},
	},
}

var realModels = map[Kind]string{Claude: "claude-sonnet-4-5", Codex: "gpt-5", Gemini: "gemini-2.5-flash"}

// path is the real program. Without one the test is skipped, with a message.
func (r realProgram) path(t *testing.T) string {
	t.Helper()
	variable := "TURNSTILE_TEST_" + strings.ToUpper(string(r.kind))
	name := os.Getenv(variable)
	if name == "" {
		name = string(r.kind)
	}
	path, err := osexec.LookPath(name)
	if err != nil && os.Getenv(variable) != "" {
		t.Fatalf("%s: %v", variable, err)
	}
	if err != nil {
		t.Skipf("THE REAL %s WAS NOT TESTED: IT IS NOT ON PATH AND NOT NAMED BY %s", strings.ToUpper(string(r.kind)), variable)
	}
	return path
}

// rig is a real program with a separate home, workspace and models.
type rig struct {
	realProgram
	*models
	home, workspace string
	config          Config
}

func (r realProgram) start(t *testing.T) *rig {
	t.Helper()
	return r.startWith(t, agent.Isolation{})
}

func (r realProgram) startWith(t *testing.T, isolation agent.Isolation) *rig {
	t.Helper()
	path := r.path(t)
	g := &rig{realProgram: r, models: startModels(t), home: t.TempDir(), workspace: t.TempDir()}
	if isolation.Level != "" {
		place, err := workspace.Root{Path: g.workspace}.Place(turn("").Session, "default")
		expect.OK(t, err)
		g.home = place.Home
		server, err := url.Parse(g.URL)
		expect.OK(t, err)
		number, err := strconv.Atoi(server.Port())
		expect.OK(t, err)
		isolation.Ports = []int{number}
		if r.kind == Codex { // its own sandbox cannot mount anything here
			r.options = []string{"exec", "--sandbox", "danger-full-access"}
		}
	}
	if r.files != nil {
		for name, text := range r.files(g.URL) {
			name = filepath.Join(g.home, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.config = Config{Model: realModels[r.kind], Workspace: g.workspace, Isolation: isolation}
	g.config.Command = append(append([]string{"env", "HOME=" + g.home}, r.env(g.URL, g.home)...), append([]string{path}, r.options...)...)
	return g
}

// agent is one that also records the program's stdout as testdata/KIND/as if TURNSTILE_TEST_RECORD
// is set.
func (g *rig) agent(t *testing.T, as string) *Agent {
	t.Helper()
	config := g.config
	if os.Getenv("TURNSTILE_TEST_RECORD") != "" {
		name, err := filepath.Abs(filepath.Join("testdata", string(g.kind), as+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		program := slices.IndexFunc(config.Command[1:], func(word string) bool { return !strings.Contains(word, "=") }) + 1
		config.Command = append(config.Command[:program:program], roleCommand("tee", name, config.Command[program:]...)...)
		t.Cleanup(func() { g.scrub(t, name) })
	}
	return newAgent(t, g.kind, config)
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// keepRollout records the last turn's lines in Codex's rollout as testdata/codex/as.rollout, if
// TURNSTILE_TEST_RECORD is set: the lines about calls and items.
func (g *rig) keepRollout(t *testing.T, as string) {
	t.Helper()
	if os.Getenv("TURNSTILE_TEST_RECORD") == "" {
		return
	}
	files, err := filepath.Glob(g.home + "/.codex/sessions/*/*/*/rollout-*.jsonl")
	if err != nil || len(files) != 1 {
		t.Fatalf("rollouts %q, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	turn := string(data[bytes.LastIndex(data, []byte(`"task_started"`)):])
	var kept strings.Builder
	for line := range strings.Lines(turn) {
		if strings.Contains(line, "_call") || strings.Contains(line, `"item_completed"`) {
			kept.WriteString(line)
		}
	}
	name := filepath.Join("testdata", string(g.kind), as+".rollout")
	if err := os.WriteFile(name, []byte(kept.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	g.scrub(t, name)
}

// scrub removes this machine's paths from a recording.
func (g *rig) scrub(t *testing.T, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
		return
	}
	text := string(data)
	for path, other := range map[string]string{
		g.home: "/home/user", g.workspace: "/workspace",
		strings.NewReplacer("/", "-", "_", "-").Replace(g.workspace): "-workspace",
	} {
		text = strings.ReplaceAll(text, path, other)
	}
	if err := os.WriteFile(name, []byte(port.ReplaceAllString(text, "127.0.0.1:1")), 0o600); err != nil {
		t.Error(err)
	}
}

// TestARealProgramsSession runs the turns of a real program's session.
func TestARealProgramsSession(t *testing.T) {
	t.Parallel()
	realSessions(t, agent.Isolation{})
}

// TestARealProgramsConfinedSession runs them confined, as docs/security.md says.
func TestARealProgramsConfinedSession(t *testing.T) {
	t.Parallel()
	if err := confine.Check(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	realSessions(t, agent.Isolation{Level: agent.IsolationConfined})
}

func realSessions(t *testing.T, isolation agent.Isolation) {
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			g := r.startWith(t, isolation)
			first := playTurn(t, g.agent(t, "new"), turn("-think first"))
			first.wantReply(t, "Heard 1: -think first")
			if r.kind != Gemini { // it does not report them
				first.want(t, session.EventThought, "Let me see.")
			}
			if r.kind != Claude { // it also asks for a title
				first.wantUsage(t, session.Usage{Model: realModels[r.kind], InputTokens: 18, CachedTokens: 5})
			}

			second := turn("please use the tool")
			second.State = first.state(t)
			as := "tool"
			if _, err := osexec.LookPath("bwrap"); err == nil && r.kind == Codex {
				as = "bubblewrap"
			}
			used := playTurn(t, g.agent(t, as), second)
			used.wantReply(t, "The tool has spoken.")
			switch failure := used.wantTool(t, r.tool); {
			case failure == "":
				t.Logf("the tool ran (%s)", as)
			case r.kind == Codex && strings.Contains(failure, "bwrap: "):
				t.Logf("Codex's sandbox failed (%s), and the user is told: %s", as, failure)
				g.keepRollout(t, as)
			default:
				t.Errorf("the tool failed: %s", failure)
			}
			used.wantUsage(t, session.Usage{Model: realModels[r.kind], InputTokens: 36, CachedTokens: 10})
			if sessionOf(t, used.state(t)) != sessionOf(t, first.state(t)) {
				t.Errorf("%s, then %s", first.state(t), used.state(t))
			}

			third := turn("and now?")
			third.State = used.state(t)
			resumed := playTurn(t, g.agent(t, "resume"), third)
			resumed.wantReply(t, "Heard 3: -think first | please use the tool | and now?")
			resumed.wantUsage(t, session.Usage{Model: realModels[r.kind], InputTokens: 18, CachedTokens: 5})

			forth := turn("be refused")
			forth.State = resumed.state(t)
			refused := playTurn(t, g.agent(t, "refused"), forth)
			if refused.err == nil || errors.Is(refused.err, agent.ErrRetryable) || !strings.Contains(refused.err.Error(), "the scripted model refuses") {
				t.Errorf("refused: %v", refused.err)
			}
			if len(refused.reply) > 0 {
				t.Errorf("refused, and yet it says %q", refused.reply)
			}
		})
	}
}

// A tool that the program denies is reported with the reason. Codex does not report a command that
// its sandbox denies at once; if bubblewrap cannot work, that is every command.
func TestRealDenied(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			r.options = nil // they allow the tool
			g := r.start(t)
			got := playTurn(t, g.agent(t, "denied"), turn("be denied"))
			got.wantReply(t, "The tool has spoken.")
			tool := map[Kind]string{Gemini: "write_file"}[r.kind]
			failure := got.wantTool(t, cmp.Or(tool, r.tool))
			if failure == "" {
				t.Error("the tool did not fail")
			}
			t.Logf("the user is told: %s", failure)
			if r.kind == Codex {
				g.keepRollout(t, "denied")
			}
		})
	}
}

func TestRealForgottenSession(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			for _, others := range []bool{false, true} { // whether there are other sessions
				g := r.start(t)
				tn := turn("who am I?")
				if others {
					playTurn(t, newAgent(t, r.kind, g.config), tn).wantReply(t, "Heard 1: who am I?")
				}
				tn.State = json.RawMessage(fmt.Sprintf(`{"agent":%q,"session":%q}`, r.kind, lostID))
				tn.History = []session.Entry{{Role: session.RoleUser, Text: "call me Ishmael"}}
				got := playTurn(t, newAgent(t, r.kind, g.config), tn)
				if got.err != nil || !strings.HasPrefix(got.reply, "Heard 1: [What was said") || !strings.Contains(got.reply, "User: call me Ishmael") {
					t.Errorf("%v, %q", got.err, got.reply)
				}
				if id := sessionOf(t, got.state(t)); id == lostID {
					t.Errorf("the session is still %s", id)
				}
			}
		})
	}
}

// It records the programs' own output for an unknown session.
func TestRealForgottenSessionStream(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			g := r.start(t)
			a := g.agent(t, "unknown")
			r := &run{kind: a.kind, program: a.program, resume: lostID, watch: command.Watch{Grace: a.config.Grace, Linger: a.linger, Patience: a.patience}}
			r.stream = &stream{emit: func(agent.Event) {}, logger: a.config.Logger}
			r.decoder = a.program.decoder(r.stream)
			dir, err := a.workspace("test")
			if err != nil {
				t.Fatal(err)
			}
			spec := specOf(a, dir, lostID)
			if err := r.do(t.Context(), spec, "hi"); !errors.Is(err, errForgotten) {
				t.Errorf("%v", err)
			}
			if n := len(g.seen()); n > 0 && r.kind != Claude { // it may ask for a title before
				t.Errorf("a model was asked %d times", n)
			}
		})
	}
}

// The text is much longer than argv may be.
func TestRealLongText(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			g := r.start(t)
			long := ""
			for i := range 10_000 { // each different: Gemini CLI would call a repetition a loop
				long += fmt.Sprintf("the word %d. ", i)
			}
			got := playTurn(t, newAgent(t, r.kind, g.config), turn(long))
			got.wantReply(t, fmt.Sprintf("Heard %d bytes.", len(strings.TrimSpace(long))))
			if calls := g.seen(); !slices.ContainsFunc(calls, func(c call) bool { return c.model == realModels[r.kind] }) {
				t.Error("another model was asked")
			}
		})
	}
}

// A user's text is words: it neither changes the program's settings, nor puts a file before the model.
func TestRealUsersWords(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			g := r.start(t)
			playTurn(t, newAgent(t, r.kind, g.config), turn("hello")).wantReply(t, "Heard 1: hello")
			dirs, err := filepath.Glob(g.workspace + "/*")
			expect.OK(t, err)
			expect.OK(t, os.WriteFile(filepath.Join(dirs[0], "notes.txt"), []byte("what the file has"), 0o600))
			for _, text := range []string{"/config permissionMode=acceptEdits", "/compact", "see @notes.txt", "x\n@\"notes.txt\""} {
				got := playTurn(t, newAgent(t, r.kind, g.config), turn(text))
				last := text[strings.LastIndexAny(text, "@/")+1:]
				if got.err != nil || !strings.HasPrefix(got.reply, "Heard 1: ") || !strings.HasSuffix(got.reply, last) {
					t.Errorf("%q: %v, %q", text, got.err, got.reply)
				}
			}
			for _, c := range g.seen() {
				if strings.Contains(c.body, "what the file has") {
					t.Errorf("the model has read the file: %q", c.texts)
				}
			}
			settings, err := os.ReadFile(filepath.Join(g.home, ".claude", "settings.json"))
			if strings.Contains(string(settings), "acceptEdits") {
				t.Errorf("the settings were changed: %s, %v", settings, err)
			}
		})
	}
}

package command

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"turnstile/internal/process/workspace"
	"turnstile/pkg/agent"
)

// Launcher is the first argument with which this binary, executed again, is a launcher: it confines
// itself and becomes the program. Its further arguments are a Confinement in JSON or null, the
// program's path and the program's arguments. Its variables are the program's, with LauncherPrefix
// before their names: an agent may have chosen some, and LD_PRELOAD would run its code before it is
// confined. See internal/process/confine.
const (
	Launcher       = "turnstile-launcher"
	LauncherPrefix = "TURNSTILE_LAUNCH_"
)

// Confinement is what a confined program may reach, in addition to the system's own files.
type Confinement struct {
	Write []string `json:"write"`
	Read  []string `json:"read"`
	Ports []int    `json:"ports"`

	Listen []int `json:"listen"`
}

// HasLauncher is set in a program whose binary is a launcher, too.
var HasLauncher atomic.Bool

// Isolator isolates the programs of one configured command.
type Isolator struct {
	agent.Isolation
	read []string
}

// NewIsolator checks the isolation. trusted are words of the operator, such as the agent's command: a
// confined program may read the files that they name, but never those that an agent names.
func NewIsolator(i agent.Isolation, trusted ...string) (Isolator, error) {
	i.Agent = cmp.Or(i.Agent, "default")
	is := Isolator{Isolation: i}
	var err error
	switch i.Level {
	case "", agent.IsolationNone:
		return Isolator{}, nil
	case agent.IsolationConfined:
		if is.read = append(ownFiles(trusted), i.Read...); !HasLauncher.Load() {
			err = errors.New("isolation: program.Init was not called: call it first thing in main")
		}
	case agent.IsolationWrapper:
		if len(i.Wrapper) == 0 {
			err = errors.New("isolation: the wrapper has no command")
		}
	default:
		err = fmt.Errorf("isolation: unknown level %q: use %s, %s or %s", i.Level, agent.IsolationNone, agent.IsolationConfined, agent.IsolationWrapper)
	}
	switch {
	case err != nil:
	case i.Workspace == "":
		err = errors.New("isolation: there is no workspace")
	case !filepath.IsLocal(i.Agent) || filepath.Base(i.Agent) != i.Agent || i.Agent == ".":
		err = fmt.Errorf("isolation: the agent's name %q is no name of a directory", i.Agent)
	}
	return is, err
}

// ownFiles are the files that a command names, as absolute paths without links. Of a program of npm
// they include the folder of its packages.
func ownFiles(words []string) (files []string) {
	for i, word := range words {
		path := word
		if i == 0 {
			path, _ = osexec.LookPath(word)
		}
		if !strings.Contains(path, "/") {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		path, err = filepath.EvalSymlinks(path)
		if info, e := os.Stat(path); err != nil || e != nil || !info.Mode().IsRegular() {
			continue
		}
		const packages = "/node_modules/"
		if at := strings.Index(path, packages); at >= 0 {
			path = path[:at+len(packages)]
		}
		files = append(files, path)
	}
	return files
}

// Apply isolates a program of a session.
func (i Isolator) Apply(spec Spec, session string) (Spec, error) {
	if i.Level == "" {
		return spec, nil
	}
	place, err := workspace.Root{Path: i.Workspace, Group: i.WorkspaceGroup}.Place(session, i.Agent)
	if err != nil {
		return spec, err
	}
	spec.Home = place.Home
	spec.Dir = cmp.Or(spec.Dir, place.Directory)
	if i.Level == agent.IsolationConfined {
		spec.Env = override(spec.Env, "HOME="+place.Home, "TMPDIR="+place.Temporary)
		spec.confinement = &Confinement{Write: []string{place.Directory, place.Home, place.Temporary}, Read: i.read, Ports: i.Ports, Listen: i.Listen}
		return spec, nil
	}
	fill := strings.NewReplacer("{workspace}", place.Directory, "{home}", place.Home, "{session}", filepath.Base(place.Directory), "{run}", strings.ToLower(rand.Text()))
	if spec.wrapper = filled(i.Wrapper, fill); len(i.Kill) > 0 {
		spec.kill = filled(i.Kill, fill)
		if spec.kill[0], err = osexec.LookPath(spec.kill[0]); err != nil {
			return spec, notStarted(err, false)
		}
	}
	return spec, nil
}

// override returns env with other values of some variables.
func override(env []string, variables ...string) []string {
	env = slices.Clone(env)
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		env = append(slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }), v)
	}
	return env
}

func filled(words []string, fill *strings.Replacer) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = fill.Replace(word)
	}
	return out
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// UnknownPlaceholder returns a word's first placeholder that Apply does not fill, or "".
func UnknownPlaceholder(words []string) string {
	for _, word := range words {
		for _, p := range placeholder.FindAllString(word, -1) {
			if !slices.Contains([]string{"{workspace}", "{home}", "{session}", "{run}"}, p) {
				return p
			}
		}
	}
	return ""
}

// launched reports whether the guardian starts a launcher: also where this process's user cannot
// read the binary, so that guardians cannot raise the program's score. See guardian.RaiseOOMScore.
func (s Spec) launched() bool {
	return s.confinement != nil || HasLauncher.Load() && unix.Access("/proc/self/exe", unix.R_OK) == unix.EACCES
}

// program returns what the guardian starts.
func (s Spec) program() (path string, argv, env []string, err error) {
	argv, env = s.Argv, override(s.Env, s.Chosen...)
	if len(s.wrapper) > 0 {
		// The wrapper itself is not the agent's, and must not obey its variables.
		env = s.Env
		if len(s.Chosen) > 0 {
			argv = append(append([]string{"env"}, s.Chosen...), argv...)
		}
		argv = append(slices.Clone(s.wrapper), argv...)
	}
	if path, err = osexec.LookPath(argv[0]); err == nil && s.Home != "" {
		path, err = filepath.Abs(path) // the guardian starts it in another directory
	}
	if err != nil || !s.launched() {
		return path, argv, env, err
	}
	for i := range env {
		env[i] = LauncherPrefix + env[i]
	}
	rules, err := json.Marshal(s.confinement)
	// The guardian is this binary.
	return "/proc/self/exe", append([]string{Launcher, string(rules), path}, argv...), env, err
}

package deploy

import (
	"encoding/json"
	"go/version"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stage is one FROM and the commands after it.
type stage struct {
	image, name string
	lines       []line
}

type line struct{ verb, rest string }

func (s stage) all(verb string) []string {
	var found []string
	for _, l := range s.lines {
		if l.verb == verb {
			found = append(found, l.rest)
		}
	}
	return found
}

// environ are the variables of ENV.
func (s stage) environ() (list []string) {
	for _, words := range s.all("ENV") {
		for _, word := range regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`).FindAllStringSubmatch(words, -1) {
			list = append(list, word[1]+"="+strings.Trim(word[2], `"`))
		}
	}
	return list
}

// readDockerfile reads the stages, each with the commands of the one that it is FROM. The last is also "".
func readDockerfile(t *testing.T) map[string]stage {
	t.Helper()
	raw, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]stage{}
	var last stage
	for text := range strings.Lines(strings.ReplaceAll(string(raw), "\\\n", "")) {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(text, " ")
		if verb == "FROM" {
			image, name, _ := strings.Cut(rest, " AS ")
			if last = (stage{image: image}); stages[image].name != "" {
				last = stages[image]
			}
			last.name, last.lines = name, slices.Clone(last.lines)
		} else if last.name == "" {
			t.Fatalf("%s stands before FROM ... AS NAME", verb)
		} else {
			last.lines = append(last.lines, line{verb, strings.TrimSpace(rest)})
		}
		stages[last.name], stages[""] = last, last
	}
	return stages
}

// wantPinned wants a version with its patch number; `make pin` adds a digest.
func wantPinned(t *testing.T, image string) {
	t.Helper()
	if !regexp.MustCompile(`^[a-z/.]+:\d+\.\d+\.\d+(-[a-z0-9.]+)*(@sha256:[0-9a-f]{64})?$`).MatchString(image) {
		t.Errorf("the version of the image %s is not pinned", image)
	}
}

func TestDockerfileBuilds(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	build := stages["build"]
	for _, s := range stages {
		if s.image != "scratch" {
			wantPinned(t, s.image)
		}
	}

	gomod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	needs := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(gomod))
	has, ok := strings.CutPrefix(build.image, "golang:")
	if !ok || needs == nil || version.Compare("go"+has, "go"+needs[1]) < 0 {
		t.Errorf("image %s, but go.mod needs Go %v", build.image, needs)
	}

	var copied []string
	for _, c := range build.all("COPY") {
		words := strings.Fields(c)
		for _, source := range words[:len(words)-1] {
			if found, err := filepath.Glob(path.Join(root, source)); err != nil || len(found) == 0 {
				t.Errorf("COPY %s: nothing is called %s (%v)", c, source, err)
			}
			copied = append(copied, source)
		}
	}
	for _, need := range append([]string{"go.mod", "go.sum"}, sources(t)...) {
		if !slices.ContainsFunc(copied, func(c string) bool { return c == need || strings.HasPrefix(c, need+"/") }) {
			t.Errorf("%s is not copied", need)
		}
	}
	run := strings.Join(build.all("RUN"), "\n")
	for _, need := range []string{"CGO_ENABLED=0", "-o /out/", "./cmd/worker", "./cmd/gateway", "./cmd/enqueue", "chmod 0711 /out/worker /out/gateway /out/enqueue"} {
		if !strings.Contains(run, need) {
			t.Errorf("the build has no %s: %s", need, run)
		}
	}
	ignore, err := os.ReadFile(root + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range copied {
		if !strings.Contains(string(ignore), "\n!"+source+"\n") {
			t.Errorf(".dockerignore keeps %s away", source)
		}
	}
}

// sources are the files of a build, as COPY names them.
func sources(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var found []string
	for path := range strings.FieldsSeq(string(out)) {
		_, below, _ := strings.Cut(path, "/")
		folder, _, _ := strings.Cut(below, "/")
		if below == "" {
			folder = "*.go"
		}
		if !slices.Contains(found, folder) {
			found = append(found, folder)
		}
	}
	return found
}

func TestDockerfileImages(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	if stages[""].name != "worker" {
		t.Errorf("the image without a --target is %s", stages[""].name)
	}
	for name, program := range map[string]string{"worker": "worker", "gateway": "gateway", "worker-agents": "worker"} {
		s := stages[name]
		if user := s.all("USER"); len(user) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user[0]) {
			t.Errorf("%s: user %v, want the numbers of one that is not root", name, user)
		}
		if got := s.all("STOPSIGNAL"); !slices.Equal(got, []string{"SIGTERM"}) {
			t.Errorf("%s: STOPSIGNAL %v does not drain", name, got)
		}
		if exposed := s.all("EXPOSE"); len(exposed) > 0 {
			t.Errorf("%s: EXPOSE %v", name, exposed)
		}
		installed := map[string]bool{}
		for _, c := range s.copies(t) {
			for _, source := range c.sources {
				installed[path.Join(c.to, path.Base(source))] = true
			}
		}
		if !installed["/usr/local/bin/enqueue"] {
			t.Errorf("%s: enqueue is not installed", name)
		}
		var entrypoint []string
		if err := json.Unmarshal([]byte(strings.Join(s.all("ENTRYPOINT"), "")), &entrypoint); err != nil {
			t.Fatalf("%s: ENTRYPOINT is not in its exec form, so a shell would get the signals: %v", name, err)
		}
		if want := "/usr/local/bin/" + program; !slices.Equal(entrypoint, []string{want}) || !installed[want] {
			t.Errorf("%s: entrypoint %v, installed %v", name, entrypoint, installed)
		}
	}
	// The same versions, installed by the same command, are those that `make real-agents` tests.
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	agents := regexp.MustCompile(`(?m)^NPM +:= (.+)$`).FindSubmatch(makefile)
	if npm := "npm install --global --prefix /usr/local --no-fund --no-audit " + string(agents[1]) + " "; !strings.Contains(strings.Join(stages["worker-agents"].all("RUN"), "\n"), npm) {
		t.Errorf("worker-agents does not %s", npm)
	}
}

// copied is a COPY from the build.
type copied struct {
	sources     []string
	to          string
	owner, mode string
}

func (s stage) copies(t *testing.T) (list []copied) {
	t.Helper()
	for _, c := range s.all("COPY") {
		words := strings.Fields(c)
		if words[0] != "--from=build" {
			t.Errorf("COPY %s is not from the build", c)
		}
		one := copied{to: words[len(words)-1]}
		for _, word := range words[1 : len(words)-1] {
			if owner, ok := strings.CutPrefix(word, "--chown="); ok {
				one.owner = owner
			} else if mode, ok := strings.CutPrefix(word, "--chmod="); ok {
				one.mode = mode
			} else {
				one.sources = append(one.sources, word)
			}
		}
		list = append(list, one)
	}
	return list
}

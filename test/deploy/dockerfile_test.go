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

func readDockerfile(t *testing.T) (build, final stage) {
	t.Helper()
	raw, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var stages []stage
	for text := range strings.Lines(strings.ReplaceAll(string(raw), "\\\n", "")) {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(text, " ")
		if verb == "FROM" {
			image, name, _ := strings.Cut(rest, " AS ")
			stages = append(stages, stage{image: image, name: name})
			continue
		}
		if len(stages) == 0 {
			t.Fatalf("%s stands before FROM", verb)
		}
		last := &stages[len(stages)-1]
		last.lines = append(last.lines, line{verb, strings.TrimSpace(rest)})
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages", len(stages))
	}
	return stages[0], stages[1]
}

// wantPinned wants a version with its patch number; `make pin` adds a digest.
func wantPinned(t *testing.T, image string) {
	t.Helper()
	if !regexp.MustCompile(`^[a-z/.]+:\d+\.\d+\.\d+(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`).MatchString(image) {
		t.Errorf("the version of the image %s is not pinned", image)
	}
}

func TestDockerfileBuilds(t *testing.T) {
	t.Parallel()
	build, final := readDockerfile(t)
	wantPinned(t, build.image)
	wantPinned(t, final.image)

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

func TestDockerfileImage(t *testing.T) {
	t.Parallel()
	build, final := readDockerfile(t)
	user := final.all("USER")
	if len(user) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user[0]) {
		t.Errorf("user %v, want the numbers of one that is not root", user)
	}
	if got := final.all("STOPSIGNAL"); !slices.Equal(got, []string{"SIGTERM"}) {
		t.Errorf("STOPSIGNAL %v does not drain", got)
	}
	if exposed := final.all("EXPOSE"); len(exposed) > 0 {
		t.Errorf("EXPOSE %v", exposed)
	}

	installed := map[string]bool{}
	for _, c := range final.all("COPY") {
		words := strings.Fields(c)
		if words[0] != "--from="+build.name {
			t.Errorf("COPY %s is not from the build", c)
		}
		for _, source := range words[1 : len(words)-1] {
			installed[path.Join(words[len(words)-1], path.Base(source))] = true
		}
	}
	if !installed["/usr/local/bin/enqueue"] {
		t.Error("enqueue is not installed")
	}
	var entrypoint []string
	if err := json.Unmarshal([]byte(strings.Join(final.all("ENTRYPOINT"), "")), &entrypoint); err != nil {
		t.Fatalf("ENTRYPOINT is not in its exec form, so a shell would get the signals: %v", err)
	}
	if len(entrypoint) != 1 || !installed[entrypoint[0]] || path.Base(entrypoint[0]) != "worker" {
		t.Errorf("entrypoint %v, installed %v", entrypoint, installed)
	}
}

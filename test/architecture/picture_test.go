package architecture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// picture is the graph of packages on docs/internals/architecture.md.
type picture struct {
	nodes  map[string][]string // a node's name: the folders that its label names; FOLDER/... is a tree
	arrows map[string][]string // from a node to the nodes that it imports
	others string              // the text below the graph: the packages that it leaves out
}

var (
	nodeLabel = regexp.MustCompile(`(\w+)\["?([^"\]]+)"?\]`)
	arrow     = regexp.MustCompile(`^(\w+) --> (\w+)$`)
)

// Each arrow of the picture is an import. Each import between two packages of the picture is an
// arrow, or follows from a chain of arrows. Each other package is in the list below the picture.
func TestPictureShowsTheImports(t *testing.T) {
	t.Parallel()
	drawn := readPicture(t)
	imports := map[string][]string{}
	for _, p := range packages(t) {
		from := drawn.nodeOf(p.folder())
		if from == "" {
			if !strings.HasPrefix(p.folder(), "test/") && !strings.Contains(drawn.others, "`"+p.folder()+"`") &&
				!drawn.namesTree(p.folder()) {
				t.Errorf("%s is neither in the picture nor in the list below it", p.folder())
			}
			continue
		}
		for _, folder := range p.ours() {
			if to := drawn.nodeOf(folder); to != "" && to != from && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
	}
	for from, all := range drawn.arrows {
		for _, to := range all {
			if !slices.Contains(imports[from], to) {
				t.Errorf("%s --> %s: there is no such import", from, to)
			}
			if drawn.reaches(from, to, 2) {
				t.Errorf("%s --> %s: leave it out, a chain of arrows says it", from, to)
			}
		}
	}
	for from, all := range imports {
		for _, to := range all {
			if !drawn.reaches(from, to, 1) {
				t.Errorf("the import %s --> %s is missing", from, to)
			}
		}
	}
}

// nodeOf is the node that shows a folder, or "".
func (p picture) nodeOf(folder string) string {
	for node, folders := range p.nodes {
		for _, f := range folders {
			above, tree := strings.CutSuffix(f, "/...")
			if folder == above || tree && strings.HasPrefix(folder, above+"/") {
				return node
			}
		}
	}
	return ""
}

// namesTree reports whether the list below the picture has a folder above this one, as FOLDER/... .
func (p picture) namesTree(folder string) bool {
	for above := filepath.Dir(folder); above != "."; above = filepath.Dir(above) {
		if strings.Contains(p.others, "`"+above+"/...`") {
			return true
		}
	}
	return false
}

// reaches reports whether a chain of at least so many arrows leads from one node to another.
func (p picture) reaches(from, to string, least int) bool {
	for _, next := range p.arrows[from] {
		if next == to && least <= 1 || p.reaches(next, to, least-1) {
			return true
		}
	}
	return false
}

func readPicture(t *testing.T) picture {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	before, rest, ok := strings.Cut(section, "```mermaid\n")
	graph, others, closed := strings.Cut(rest, "\n```\n")
	if !ok || !closed {
		t.Fatalf("no picture behind %q", before)
	}
	drawn := picture{nodes: map[string][]string{}, arrows: map[string][]string{}, others: others}
	if err := drawn.parse(graph); err != nil {
		t.Fatal(err)
	}
	if len(drawn.nodes) < 10 || len(drawn.arrows) < 10 {
		t.Errorf("the picture has %d packages and arrows from %d of them: was it read?", len(drawn.nodes), len(drawn.arrows))
	}
	return drawn
}

// parse reads a Mermaid flowchart. Its lines are a node with its label, or NODE --> NODE.
func (p picture) parse(graph string) error {
	for line := range strings.Lines(graph) {
		line = strings.TrimSpace(line)
		if m := nodeLabel.FindStringSubmatch(line); m != nil && m[0] == line {
			folders, _, _ := strings.Cut(m[2], "<br>")
			for folder := range strings.SplitSeq(folders, ", ") {
				if folder == "turnstile" {
					folder = "."
				}
				p.nodes[m[1]] = append(p.nodes[m[1]], folder)
			}
		} else if m := arrow.FindStringSubmatch(line); m != nil {
			if p.nodes[m[1]] == nil || p.nodes[m[2]] == nil {
				return fmt.Errorf("%s: a node has no label above", line)
			}
			p.arrows[m[1]] = append(p.arrows[m[1]], m[2])
		} else if line != "" && line != "flowchart TD" {
			return fmt.Errorf("the picture's line %q is neither a node nor an arrow", line)
		}
	}
	return nil
}

package behaviours

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// dropped are words that docs/glossary.md replaced, with the word to write. Each pattern has one
// meaning in this repository, so a match is always a mistake.
var dropped = []struct {
	word  *regexp.Regexp
	write string
}{
	{dropWord(`cut[- ]off`), "interrupted, or truncated"},
	{dropWord(`put(s|ting)? aside`), "archived, dead letter"},
	{dropWord(`rings?|rung|rang|ringing`), "notify"},
	{dropWord(`passengers?`), "a command of the batch"},
	{dropWord(`flights|(a|the|one|its|each|next|every) flight`), "batch; in flight is right"},
	{dropWord(`joint|joints|jointly`), "shared"},
	{dropWord(`(is|are|was|were|be|been|being) told`), "receives, is given, learns"},
	{dropWord(`(tell|tells|told) of`), "report, record, log"},
	{dropWord(`answers`), "returns; reply, result or decision"},
	{dropWord(`answered (true|false|nil|by|with)`), "returned"},
	{dropWord(`(no|any) answer (to|in|within|of|from)|(not|none|already|was|were) answered|(do|does|did) not answer|answer with`), "reply, result, decided, respond"},
	{dropWord(`(what|not) (was |were |is )?put in`), "sent"},
	{dropWord(`given_back`), "requeued"},
	{dropWord(`look(s|ed|ing)? after`), "recover, check, poll"},
	{dropWord(`left alone`), "skipped, not touched"},
	{dropWord(`g(ive|ives|iven|ave|iving) back`), "requeued, released"},
	{dropWord(`kept agents?`), "warm agent"},
	{dropWord(`plain (claims?|finish|ends?|scripts?|variants?)`), "fast path"},
	{dropWord(`whole scripts?`), "full path"},
	{dropWord(`unannounced`), "a lost wake-up"},
	{dropWord(`late (sessions?|ones)`), "overdue"},
	{dropWord(`odd names?`), "invalid name"},
	{dropWord(`by and by`), "step by step"},
	{dropWord(`be it (that|a|an|the|by)`), "whether ... or"},
	{dropWord(`no walls?`), "not a boundary"},
	{dropWord(`asks? back`), "asks for confirmation"},
}

func dropWord(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(words, " ", `\s+`) + `)\b`)
}

// texts are the files to check: those of a kind in a folder and below it, or those that match a
// pattern.
var texts = []struct{ from, kind string }{
	{"docs", ".md"},
	{"bench/README.md", ".md"},
	{"bench-peers/README.md", ".md"},
	{"README.md", ".md"},
	{"CONTRIBUTING.md", ".md"},
	{"*.go", ".go"},
	{"pkg/session", ".go"},
	{"pkg/admin", ".go"},
	{"pkg/lockguard", ".go"},
	{"pkg/resume", ".go"},
	{"internal/program/config", ".go"},
	{"internal/program/daemon", ".go"},
	{"internal/redis/devredis", ".go"},
	{"pkg/worker", ".go"},
	{"internal/program/httpd", ".go"},
	{"internal/protocol/lease", ".go"},
	{"internal/protocol/maintenance", ".go"},
	{"internal/program/metrics", ".go"},
	{"internal/text/printable", ".go"},
	{"internal/protocol/agents", ".go"},
	{"internal/protocol", ".lua"},
	{"internal/protocol/lua", ".go"},
	{"internal/protocol/scripts", ".go"},
	{"internal/protocol/recovery", ".go"},
	{"internal/redis/redisconn", ".go"},
	{"internal/protocol/rediskey", ".go"},
	{"internal/redis/script", ".go"},
	{"internal/redis/script", ".lua"},
	{"internal/program/service", ".go"},
	{"internal/chat/slash", ".go"},
	{"internal/text/strictjson", ".go"},
	{"internal/chat/terminal", ".go"},
	{"internal/version", ".go"},
	{"internal/process/workspace", ".go"},
	{"bench", ".go"},
	{"bench", ".lua"},
	{"bench-peers", ".go"},
	{"cmd", ".go"},
	{"examples", ".go"},
	{"examples", ".md"},
	{"pkg/agent", ".go"},
	{"test/acl", ".go"},
	{"test/adapters", ".go"},
	{"test/architecture", ".go"},
	{"test/behaviours", ".go"},
	{"test/connections", ".go"},
	{"test/demo", ".go"},
	{"test/deploy", ".go"},
	{"test/examples", ".go"},
	{"test/explore", ".go"},
	{"test/hostile", ".go"},
	{"test/modelserver", ".go"},
	{"test/mutation", ".go"},
	{"test/program", ".go"},
	{"test/redistest", ".go"},
	{"test/reference", ".go"},
	{"test/sameuser", ".go"},
	{"test/walk", ".go"},
	{"test/watched", ".go"},
	{"test/actors", ".go"},
	{"test/expect", ".go"},
}

// prose blanks everything but the prose of a file, so that lines keep their numbers.
var prose = map[string]func(src string) (string, error){
	".md":  markdownProse,
	".go":  goProse,
	".lua": luaComments,
}

func TestDroppedWordsStayAway(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	read := 0
	for _, set := range texts {
		found, err := filepath.Glob(filepath.Join(root, set.from))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no file, %v", set.from, err)
		}
		for _, from := range found {
			read += checkWords(t, from, set.kind)
		}
	}
	if read < 10 {
		t.Fatalf("%d files read", read)
	}
}

// checkWords checks the files of a kind in from, and returns how many there are.
func checkWords(t *testing.T, from, kind string) (read int) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != kind {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := prose[kind](string(src))
		if err != nil {
			return err
		}
		read++
		for _, found := range droppedIn(text) {
			t.Errorf("%s:%s; see docs/glossary.md", strings.TrimPrefix(path, root+"/"), found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// droppedIn returns each dropped word of a text with its line and the word to write.
func droppedIn(text string) (found []string) {
	for _, d := range dropped {
		for _, at := range d.word.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			found = append(found, fmt.Sprintf("%d: %q, write: %s", line, text[at[0]:at[1]], d.write))
		}
	}
	return found
}

var notProse = regexp.MustCompile("(?s)\n```.*?\n```|\n {4,}[^\n]*|`[^`]*`|\\]\\([^)]*\\)|<!--.*?-->")

// markdownProse is a page without code blocks, code spans, link targets and HTML comments.
func markdownProse(src string) (string, error) {
	return notProse.ReplaceAllStringFunc(src, blank), nil
}

var quoted = regexp.MustCompile("`[^`\n]*`|\"[^\"\n]*\"")

// goProse is a Go file reduced to its comments, without their quotes, and the texts in its string
// literals. Of a test, it has the comments only.
func goProse(src string) (string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, parser.ParseComments)
	if err != nil {
		return "", err
	}
	text := []byte(blank(src))
	for _, group := range file.Comments {
		for _, c := range group.List {
			at := set.Position(c.Pos()).Offset
			copy(text[at:], "  "+c.Text[2:])
		}
	}
	text = []byte(quoted.ReplaceAllStringFunc(string(text), blank))
	if isTest(file) {
		return string(text), nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.ContainsAny(lit.Value, " \n") {
			copy(text[set.Position(lit.Pos()).Offset:], spaced.ReplaceAllString(formOf.ReplaceAllStringFunc(lit.Value, blank), "  "))
		}
		return true
	})
	return string(text), nil
}

// formOf matches JSON and names of fields in a text of several words.
var formOf = regexp.MustCompile(`"[a-z_]+"`)

// spaced matches a line break or a tab in a string literal.
var spaced = regexp.MustCompile(`\\[nt]`)

// isTest reports whether a Go file belongs to tests: by its imports, or its package's name.
func isTest(file *ast.File) bool {
	for _, imported := range file.Imports {
		if imported.Path.Value == `"testing"` {
			return true
		}
	}
	return strings.HasSuffix(file.Name.Name, "_test")
}

var luaComment = regexp.MustCompile(`^(.*?)--`)

// luaComments is a Lua file reduced to its comments, without their quotes.
func luaComments(src string) (string, error) {
	var text strings.Builder
	for line := range strings.Lines(src) {
		before := luaComment.FindString(line)
		if before == "" {
			before = strings.TrimSuffix(line, "\n")
		}
		code, dashes := strings.CutSuffix(before, "--")
		text.WriteString(blank(code))
		if dashes {
			text.WriteString("  ")
		}
		text.WriteString(quoted.ReplaceAllStringFunc(line[len(before):], blank))
	}
	return text.String(), nil
}

// blank is a text of the same length that no pattern matches: neither its words nor, as a gap, the
// words around it.
func blank(text string) string {
	b := []byte(text)
	for i := range b {
		if b[i] != '\n' && b[i] != ' ' && b[i] != '\t' {
			b[i] = 0
		}
	}
	return string(b)
}

// The check finds each word in prose, and only there.
func TestDroppedWordsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, src string
		lines     []string
	}{
		{".md", "It was cut\noff.\n", []string{"1"}},
		{".md", "Write `cut off`, [x](a/ring.md).\n\n    ring me\n\n```\nring\n```\nIt rings.\n", []string{"8"}},
		{".md", "A batch is in flight; a string, spring and bring. It is `a` told.\n", nil},
		{".go", "package x\n\n// It is\n// told.\n\n// It is\nvar a int // told\n", []string{"3"}},
		{".lua", "-- It is\n  -- told.\ncall() -- is\ncall() -- told\n", []string{"1"}},
		{".go", "package x // it answers true\n\nvar rings = \"cut_off\" // not \"cut off\"\n", []string{"1"}},
		{".go", "package x\n\nvar a, b = \"rings\", `{\"rings\": 1}`\nvar c = \"a\\nbell rings\"\n", []string{"4"}},
		{".go", "package x\n\nimport \"testing\"\n\nvar a = \"a bell rings\"\nvar _ testing.T\n", nil},
		{".lua", "local ring = 1 -- the ring\nring() -- \"ring\"\n", []string{"1"}},
	} {
		text, err := prose[c.kind](c.src)
		if err != nil || len(text) != len(c.src) {
			t.Fatalf("%q: %q, %v", c.src, text, err)
		}
		found := droppedIn(text)
		if len(found) != len(c.lines) {
			t.Errorf("%q: found %q", c.src, found)
			continue
		}
		for i, line := range c.lines {
			if !strings.HasPrefix(found[i], line+":") {
				t.Errorf("%q: found %q, not in line %s", c.src, found, line)
			}
		}
	}
}

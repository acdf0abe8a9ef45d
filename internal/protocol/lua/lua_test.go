package lua

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// scripts returns all scripts, and the library that they are made of.
func scripts(t *testing.T) (*library, map[string]Script) {
	t.Helper()
	l, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Sources(Files())
	if err != nil {
		t.Fatal(err)
	}
	return l, all
}

// parsed returns a script's own text, and the parts of the library that it uses.
func parsed(t *testing.T, l *library, name string) (code string) {
	t.Helper()
	file, fast := strings.CutSuffix(name, FastSuffix)
	text, err := fs.ReadFile(l.files, file+".lua")
	if err != nil {
		t.Fatal(err)
	}
	path := "full"
	if fast {
		path = "fast"
	}
	_, body, err := parseMove(string(text), path)
	if err != nil {
		t.Fatal(err)
	}
	both, own := sections(body, path)
	code = both + own
	for _, d := range l.used(code) {
		code += d.text
	}
	return code
}

// Redis compiles each script.
func TestScriptsCompile(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	_, all := scripts(t)
	for name, s := range all {
		if err := rdb.ScriptLoad(t.Context(), s.Source).Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var usedField = regexp.MustCompile(`(?:^|[^.\w])s\.([a-z_]+)`)

// A script declares the keys and arguments that it uses, and uses those that it declares.
func TestScriptsDeclareWhatTheyUse(t *testing.T) {
	t.Parallel()
	l, all := scripts(t)
	for name, s := range all {
		code := parsed(t, l, name)
		declared, used := map[string]bool{}, map[string]bool{}
		for _, m := range usedField.FindAllStringSubmatch(bare(code), -1) {
			used[m[1]] = true
		}
		for _, key := range s.Keys {
			if !strings.HasSuffix(key, "...") {
				declared[key] = true
			}
		}
		known := names(code)
		for _, arg := range slices.Concat(s.Args, s.Each) {
			if arg.Field {
				declared[arg.Name] = true
			} else if !known[arg.Name] && !known[arg.Name+"_first"] {
				t.Errorf("%s does not use its argument %s", name, arg.Name)
			}
		}
		for field := range used {
			if !declared[field] {
				t.Errorf("%s uses s.%s and does not declare it", name, field)
			}
		}
		for field := range declared {
			if !used[field] && name != "erase" { // which deletes them all
				t.Errorf("%s does not use s.%s", name, field)
			}
		}
	}
}

// A misspelt name fails the generator.
func TestMisspeltNamesFail(t *testing.T) {
	expect.Unraced(t) // it compiles each script many times
	t.Parallel()
	for _, c := range []struct{ file, old, new, want string }{
		{"promote.lua", "run.nostart", "run.nostrat", "run.nostrat"},                   // a field that is not read
		{"promote.lua", "'nostart'", "'nostrat'", "run.nostart"},                       // as it is read
		{"promote.lua", "refused{by", "refused{why", "no field why"},                   // a result's field
		{"promote.lua", "'refused' by", "'refused' why", "no field by"},                // as it is declared
		{"promote.lua", "PEXPIRE', s.sentinel, ttl", "PEXPIRE', s.sentinel, tl", "tl"}, // an argument
		{"claim.lua", "call('PTTL', s.sentinel)", "call('PTTL', s.sentinal)", "s_sentinal"},
		{"claim.lua", "mark.suspended or", "mark.suspend or", "suspend"},                                            // a table's field
		{"claim.lua", "{id = ids[i], bytes = bytes", "{id = ids[i], bites = bytes", "no table has the field bytes"}, // as it is written
		{"lib/turn.lua", "run.token == s.token", "run.tokn == s.token", "tokn"},                                     // in the library
		{"claim.lua", "local first = group[1]", "local first = group[1]; gruop = {}", "gruop"},                      // a local
	} {
		text, err := fs.ReadFile(Files(), c.file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.old) {
			t.Errorf("%s has no %s", c.file, c.old)
		}
		changed := fstest.MapFS{c.file: {Data: []byte(strings.Replace(string(text), c.old, c.new, 1))}}
		if _, err := Generate(over{changed}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v", c.file, c.new, err)
		}
	}
}

// over is the Lua files, with one of them changed.
type over struct{ fstest.MapFS }

func (o over) Open(name string) (fs.File, error) {
	if _, changed := o.MapFS[name]; changed {
		return o.MapFS.Open(name)
	}
	return Files().Open(name)
}

func (o over) ReadFile(name string) ([]byte, error) {
	if f, changed := o.MapFS[name]; changed {
		return f.Data, nil
	}
	return fs.ReadFile(Files(), name)
}

func (over) Glob(pattern string) ([]string, error) { return fs.Glob(Files(), pattern) }

// Keys, arguments and results have names. Only erase, for its other keys, and entries use places.
func TestScriptsHaveNoNumbers(t *testing.T) {
	t.Parallel()
	placed := regexp.MustCompile(`\b(?:KEYS|ARGV)\[(\w+)\]`)
	for _, pattern := range []string{"*.lua", "lib/*.lua"} {
		files, err := fs.Glob(Files(), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(Files(), file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range placed.FindAllStringSubmatch(bare(string(text)), -1) {
				if m[1] != "i" {
					t.Errorf("%s has %s", file, m[0])
				}
			}
		}
	}
}

// Each function of the library is used.
func TestLibraryIsUsed(t *testing.T) {
	t.Parallel()
	l, all := scripts(t)
	used := map[string]bool{}
	for name := range all {
		maps.Copy(used, names(parsed(t, l, name)))
	}
	for name := range l.defined {
		if !used[name] {
			t.Errorf("no script uses %s", name)
		}
	}
}

// A function that only returns an expression is inlined.
func TestExpressionsStandWhereTheyAreCalled(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"twice(a)":                "(a * 2)",
		"twice(a + 1)":            "((a + 1) * 2)",
		"twice(f(a, 1), ')')":     "twice(f(a, 1), ')')", // more arguments than it has
		"write(s, a)":             "call('HSET', s.run, 'a', a)",
		"write(s, twice(a))":      "call('HSET', s.run, 'a', ((a * 2)))",
		"more(s, 'b', a, 1)":      "call('HSET', s.run, 'b', a, 1)",
		"more(s)":                 "more(s)", // there would be a comma before nothing
		"both(a)":                 "both(a)", // it would be computed twice
		"'twice(a)' -- twice(a)":  "'twice(a)' -- twice(a)",
		"local call\nwrite(s, a)": "local call\nwrite(s, a)", // it is another call
	} {
		all, err := definitions("local function twice(n) return n * 2 end\nlocal function both(n) return n + n end\n" +
			"local function write(s, a)\n  return call('HSET', s.run, 'a', a)\nend\nlocal function more(s, ...)\n  return call('HSET', s.run, ...)\nend\n")
		if err != nil {
			t.Fatal(err)
		}
		p := &parts{functions: all, body: body}
		if err := p.inline(); err != nil || p.body != want {
			t.Errorf("%s becomes %s, want %s, %v", body, p.body, want, err)
		}
		for _, f := range p.functions {
			if !names(bare(p.body))[f.name] && f.name != "both" {
				t.Errorf("%s still has %s", body, f.name)
			}
		}
	}
}

func TestMistakesInHeaders(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"declares nothing":  "-- x\n--\n-- ARGS\n--   two words\nreturn 1\n",
		"nothing: \"--   b": "-- x\n--\n-- ARGS\n--   a list\n--   b\nreturn 1\n",
		"comment only":      "-- x\n",
	} {
		if _, _, err := parseMove(text, "full"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := Header{Results: map[string]Result{"ok": {Status: "ok", Fields: []Field{{"a", "text"}, {"b", "int"}}}}}
	for code, want := range map[string]string{
		"return ok{a = f({1, 'x, y'}), b = g(',')}": "return {'ok', f({1, 'x, y'}), g(',')}",
		"return ok{b = 1, a = ok{a = 2}}":           "return {'ok', {'ok', 2}, 1}",
		"return ok{}":                               "return {'ok'}",
		"return ok{b = 1}":                          "",
		"return ok{c = 1}":                          "",
		"return ok{1}":                              "",
	} {
		got, err := h.construct(code)
		if got != want && want != "" || (err == nil) != (want != "") {
			t.Errorf("%s becomes %s, %v", code, got, err)
		}
	}
}

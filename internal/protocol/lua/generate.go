package lua

import (
	"fmt"
	"go/format"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Generate returns the files of package scripts, by name: each script as it is sent to Redis, and the
// Go types of its arguments and its result. It fails if a script has a misspelt name.
func Generate(files fs.FS) (map[string]string, error) {
	all, err := Sources(files)
	if err != nil {
		return nil, err
	}
	g := generator{files: map[string]string{}, records: map[string]Result{}, statuses: map[string]bool{}}
	read, written := map[string]bool{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r, w, err := all[name].check()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(read, r)
		maps.Copy(written, w)
		g.files[name+".lua"] = all[name].Source
		if !strings.HasSuffix(name, FastSuffix) {
			if err := g.move(name, all); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for name := range written {
		if !read[name] {
			return nil, fmt.Errorf("no script reads the field %s, which one writes", name)
		}
	}
	return g.files, g.shared()
}

const generated = "// Code generated from ../lua%s by go generate; DO NOT EDIT.\n\npackage scripts\n"

// own are the keys that are no session's, or named after the call.
var own = map[string]bool{
	"call": true, "idem": true, "index": true, "waiting": true, "destinations": true,
	"ready": true, "sorted": true, "place": true, "holds": true, "ends": true, "running": true, "limits": true, "waits": true, "fair": true,
}

// groups are arguments that a call gets as one struct, see scripts.go.
var groups = []struct {
	name   string
	fields []string
}{
	{"Prefixes", []string{"task", "prefix"}},
	{"Owner", []string{"token", "fence"}},
	{"Stream", []string{"events_cap", "short", "large_bytes"}},
}

type generator struct {
	files    map[string]string
	records  map[string]Result
	statuses map[string]bool
	out      strings.Builder
}

func (g *generator) printf(text string, values ...any) { fmt.Fprintf(&g.out, text, values...) }

// write formats the printed text into a file.
func (g *generator) write(file, source string) error {
	body := g.out.String()
	g.out.Reset()
	head, imports := fmt.Sprintf(generated, source), ""
	if strings.Contains(body, "//go:embed") {
		imports = "_ \"embed\"\n"
	}
	for _, path := range []string{"time", "turnstile/internal/redis/script"} {
		if strings.Contains(body, path[strings.LastIndex(path, "/")+1:]+".") {
			imports += strings.Repeat("\n", strings.Count(path, "/")/2) + strconv.Quote(path) + "\n"
		}
	}
	if imports != "" {
		head += "import (" + imports + ")\n"
	}
	text, err := format.Source([]byte(head + body))
	g.files[file] = string(text)
	return err
}

// move writes the Go file of a move.
func (g *generator) move(name string, all map[string]Script) error {
	full, fast := all[name], all[name+FastSuffix]
	for _, s := range []Script{full, fast} {
		if s.Name == "" {
			continue
		}
		what, path := goName(s.Name), ""
		if s.Name != name {
			path = ", the fast path"
		}
		g.printf("//go:embed %s.lua\nvar %sLua string\n\n", s.Name, strings.ToLower(what[:1])+what[1:])
		g.printf("// %s is the script of %s.lua%s.\nvar %s = newMove[%sArgs](%q, %sLua, read%s)\n\n",
			what, s.Name, path, what, what, s.Name, strings.ToLower(what[:1])+what[1:], goName(name))
		g.keys(what, s.Keys)
		if s.Each == nil {
			g.args(what+"Args", "are the arguments of "+what, s.Args)
			continue
		}
		if s.Args != nil {
			g.args(what+"Shared", "are the arguments that all calls of "+what+" in a command share", s.Args)
		}
		g.args(what+"Args", "are the other arguments of "+what, s.Each)
	}
	if err := g.result(goName(name), full.Results); err != nil {
		return err
	}
	return g.write(name+".go", "/"+name+".lua")
}

// keys writes the function that returns the KEYS of a call. The caller of a script with one key has it.
func (g *generator) keys(what string, names []string) {
	if len(names) == 1 {
		return
	}
	params, values, rest := "k Keys", "", ""
	for _, name := range names {
		if list, all := strings.CutSuffix(name, "..."); all {
			params, rest = params+", "+list+" ...string", list
		} else if own[name] {
			params, values = params+", "+name+" string", values+name+", "
		} else {
			values += "k." + goName(name) + "(), "
		}
	}
	values = "[]string{" + strings.TrimSuffix(values, ", ") + "}"
	if rest != "" {
		values = "append(" + values + ", " + rest + "...)"
	}
	g.printf("// %sKeys are the KEYS of %s.\nfunc %sKeys(%s) []string {\n\treturn %s\n}\n\n", what, what, what, params, values)
}

// args writes a type of arguments.
func (g *generator) args(name, doc string, list []Arg) {
	g.printf("// %s %s.\ntype %s struct {\n", name, doc, name)
	grouped := map[string]bool{}
	for _, group := range groups {
		has := 0
		for _, arg := range list {
			if arg.Field && slices.Contains(group.fields, arg.Name) {
				has++
			}
		}
		if has == len(group.fields) {
			g.printf("%s\n", group.name)
			for _, field := range group.fields {
				grouped[field] = true
			}
		}
	}
	var words, lists []string
	for _, arg := range list {
		field := goName(arg.Name)
		if !grouped[arg.Name] || !arg.Field {
			comment := arg.doc
			if comment != "" {
				comment = " // " + comment
			}
			g.printf("%s %s%s\n", field, arg.goType(), comment)
		}
		switch word := "a." + field; {
		case arg.list():
			lists = append(lists, word)
		case arg.Kind == Flag || arg.Kind == Bit:
			words = append(words, "Flag("+word+")")
		default:
			words = append(words, word)
		}
	}
	value := "[]any{" + strings.Join(words, ", ") + "}"
	if lists != nil {
		value = "words(" + value + ", " + strings.Join(lists, ", ") + ")"
	}
	g.printf("}\n\n// Words are the arguments as ARGV has them.\nfunc (a %s) Words() []any {\n\treturn %s\n}\n\n", name, value)
}

func (a Arg) goType() string {
	switch a.Kind {
	case Int, Number:
		return "int64"
	case Flag, Bit:
		return "bool"
	case List, Range:
		return "[]string"
	}
	return "string"
}

// result writes the type of a script's result, with the fields of all its statuses.
func (g *generator) result(name string, results map[string]Result) error {
	types := map[string]string{}
	var fields, cases []string
	whole := ""
	for _, key := range slices.Sorted(maps.Keys(results)) {
		r := results[key]
		if r.Status == "" && key != "result" {
			if known, twice := g.records[key]; twice && !slices.Equal(known.Fields, r.Fields) {
				return fmt.Errorf("another script has other fields of %s", key)
			}
			g.records[key] = r
			continue
		}
		for _, f := range append(slices.Clone(r.Fields), r.rest()...) {
			if known, twice := types[f.Name]; !twice {
				types[f.Name] = f.Type
				fields = append(fields, goName(f.Name)+" "+f.goType())
			} else if known != f.Type {
				return fmt.Errorf("%s is of two types", f.Name)
			}
		}
		if r.Status == "" {
			whole = r.read(0)
			continue
		}
		g.statuses[r.Status] = true
		if read := r.read(1); read != "" {
			cases = append(cases, "case "+goName(r.Status)+":\n"+read)
		}
	}
	statuses := len(results)
	for key, r := range results {
		if r.Status == "" {
			statuses--
		}
		if key == "result" && r.Status != "" || r.Status == "" && slices.ContainsFunc(r.Fields, func(f Field) bool { return f.Name == "status" }) {
			return fmt.Errorf("%s: a result and a status may not have the same name", key)
		}
	}
	g.printf("// %sResult is the result of %s.\ntype %sResult struct {\n", name, name, name)
	if statuses > 0 {
		g.printf("Status Status\n")
	}
	g.printf("%s\n}\n\nfunc read%s(l script.Result) (r %sResult) {\n", strings.Join(fields, "\n"), name, name)
	switch {
	case whole != "" && statuses > 0:
		var names []string
		for _, key := range slices.Sorted(maps.Keys(results)) {
			if status := results[key].Status; status != "" {
				names = append(names, goName(status))
			}
		}
		g.printf("switch s := Status(l.Text(0)); s {\ncase %s:\nr.Status = s\ndefault:\n%s}\n", strings.Join(names, ", "), whole)
	case whole != "":
		g.printf("%s", whole)
	case len(cases) == 0:
		g.printf("r.Status = Status(l.Text(0))\n")
	default:
		g.printf("switch r.Status = Status(l.Text(0)); r.Status {\n%s}\n", strings.Join(cases, ""))
	}
	g.printf("return r\n}\n")
	return nil
}

// shared writes the records and statuses that several scripts have.
func (g *generator) shared() error {
	for _, key := range slices.Sorted(maps.Keys(g.records)) {
		r, name := g.records[key], goName(key)
		g.printf("// %s is a record within a result.\ntype %s struct {\n", name, name)
		for _, f := range r.Fields {
			g.printf("%s %s\n", goName(f.Name), f.goType())
		}
		g.printf("}\n\nfunc read%s(l script.Result) (r %s) {\n%sreturn r\n}\n\n", name, name, r.read(0))
	}
	if err := g.write("records.go", ""); err != nil {
		return err
	}
	g.printf("// Status is the first word of a result that has one.\ntype Status string\n\n// The statuses of all scripts.\nconst (\n")
	for _, status := range slices.Sorted(maps.Keys(g.statuses)) {
		g.printf("%s Status = %q\n", goName(status), status)
	}
	g.printf(")\n")
	return g.write("statuses.go", "")
}

// rest returns the field for the elements after the others.
func (r Result) rest() []Field {
	if r.Rest == "" {
		return nil
	}
	return []Field{{r.Rest, "list"}}
}

// read returns the Go statements that read the fields from a list, from a place on.
func (r Result) read(from int) string {
	var names, values []string
	for i, f := range r.Fields {
		names, values = append(names, "r."+goName(f.Name)), append(values, f.read(from+i))
	}
	if r.Rest != "" {
		names, values = append(names, "r."+goName(r.Rest)), append(values, fmt.Sprintf("rest(l, %d)", from+len(r.Fields)))
	}
	if names == nil {
		return ""
	}
	return strings.Join(names, ", ") + " = " + strings.Join(values, ", ") + "\n"
}

func (f Field) read(at int) string {
	switch f.Type {
	case "text":
		return fmt.Sprintf("l.Text(%d)", at)
	case "int":
		return fmt.Sprintf("l.Int(%d)", at)
	case "flag":
		return fmt.Sprintf("l.Bool(%d)", at)
	case "ms":
		return fmt.Sprintf("l.Millis(%d)", at)
	case "list":
		return fmt.Sprintf("l.List(%d)", at)
	}
	return fmt.Sprintf("records(l.List(%d), read%s)", at, goName(f.Type))
}

func (f Field) goType() string {
	switch f.Type {
	case "text":
		return "string"
	case "int":
		return "int64"
	case "flag":
		return "bool"
	case "ms":
		return "time.Duration"
	case "list":
		return "script.Result"
	}
	return "[]" + goName(f.Type)
}

// goName returns a name in Go's form: FreshSID for fresh_sid.
func goName(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words {
		switch word {
		case "id", "sid", "ttl", "ok":
			words[i] = strings.ToUpper(word)
		case "ids":
			words[i] = "IDs"
		default:
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// Generated reports whether a file was generated.
func Generated(text string) bool {
	first, _, _ := strings.Cut(text, "\n")
	return strings.Contains(first, "Code generated from ../lua")
}

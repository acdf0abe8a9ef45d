// Package lua has the sources of the session protocol's scripts: a file for each move, and in lib
// the functions that they share. Generate makes package scripts of them. No program imports this
// package.
//
// A move declares its KEYS, ARGS and RETURNS by name in the comment at its beginning. A [Kind] may
// follow an argument. A field of a result may have a type: see [Field]; NAME... is a list of all
// further elements. In its text
//
//   - s is the session: a table of its keys, and of the arguments that are declared as s.NAME.
//     Other arguments are locals;
//   - fields(key, 'a', 'b') reads fields of a hash into a table with these names. A missing field
//     is false. All are nil if the key has a wrong type;
//   - turn{now = now, fence = fence} is the result 'turn', in the order of RETURNS;
//   - a function or a constant of the library needs no declaration. A script has only those
//     that it uses, because each costs time in every call. A function that only returns an
//     expression is inlined;
//   - a move may have two paths, each a script: below -- FAST stands the fast path for the common
//     case, which serves many sessions in one call, and below -- FULL the full path for every
//     case. The functions above belong to both.
//
// Names cost a script nothing: in the composed script the session's table and records are locals,
// and results are lists.
package lua

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

//go:embed *.lua lib/*.lua
var files embed.FS

// Files returns the Lua files.
func Files() fs.FS { return files }

// Script is a composed script.
type Script struct {
	Header
	Name   string
	Source string
	run    error // of checkRun
}

// FastSuffix ends the name of a move's fast path.
const FastSuffix = "_fast"

var composed sync.Map // Script by name

var embedded = sync.OnceValues(func() (*library, error) { return load(files) })

// Compose returns the script of a move, or of its fast path if the name ends with FastSuffix.
func Compose(name string) (Script, error) {
	l, err := embedded()
	if err != nil {
		return Script{}, err
	}
	if known, ok := composed.Load(name); ok {
		return known.(Script), nil
	}
	s, err := l.compose(name)
	if err == nil {
		composed.Store(name, s)
	}
	return s, err
}

// Sources returns the scripts of the files, by name.
func Sources(files fs.FS) (map[string]Script, error) {
	l, err := load(files)
	if err != nil {
		return nil, err
	}
	moves, err := fs.Glob(files, "*.lua")
	if err != nil {
		return nil, err
	}
	all := map[string]Script{}
	for _, file := range moves {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file, ".lua")
		list := []string{name}
		if strings.Contains(string(text), fastMark) {
			list = append(list, name+FastSuffix)
		}
		for _, name := range list {
			if all[name], err = l.compose(name); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// compose makes a script of a move's file and the library.
func (l *library) compose(name string) (s Script, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("compose %s: %w", name, err)
		}
	}()
	file, fast := strings.CutSuffix(name, FastSuffix)
	path := "full"
	if fast {
		path = "fast"
	}
	text, err := fs.ReadFile(l.files, file+".lua")
	if err != nil {
		return s, err
	}
	header, body, err := parseMove(string(text), path)
	if err != nil {
		return s, err
	}
	both, body := sections(body, path)
	functions, err := definitions(both)
	if err != nil {
		return s, err
	}
	p := &parts{header: header, functions: append(l.used(both+body), functions...), own: len(functions), body: body}
	run := p.checkRun()
	for _, step := range []func() error{p.inline, p.construct, p.scalars, p.readers, p.lift} {
		if err := step(); err != nil {
			return s, err
		}
	}
	source, err := p.source(file, fast)
	return Script{p.header, name, source, run}, err
}

// parts is a script while it is composed.
type parts struct {
	header    Header
	functions []definition // of the library, then the move's own
	own       int          // how many of them are the move's own
	body      string
	read      string // the functions that read fields
}

// each changes every text of the script.
func (p *parts) each(change func(code string) string) {
	for i := range p.functions {
		p.functions[i].text = change(p.functions[i].text)
	}
	p.body = change(p.body)
}

// source returns the text that is sent to Redis.
func (p *parts) source(file string, fast bool) (string, error) {
	var out, own strings.Builder
	fmt.Fprintf(&out, "-- Code generated from ../lua/%s.lua by go generate; DO NOT EDIT.\n--\n%s\n", file, p.header.comment)
	if fast {
		// An error in the keys of one session must not end the script: it serves other sessions, too.
		out.WriteString("local call, pcall, try = redis.pcall, redis.pcall, pcall\n")
	} else {
		// redis.pcall returns an error as a table with err. Lua's own pcall is try.
		out.WriteString("local call, pcall, try = redis.call, redis.pcall, pcall\n")
		p.header.Args, p.header.Each = append(p.header.Args, p.header.Each...), nil
	}
	out.WriteString("local KEYS, ARGV = KEYS, ARGV\n")
	out.WriteString(p.header.session(fast))
	out.WriteString(p.read)
	library := len(p.functions) - p.own
	for i, f := range p.functions {
		if f.doc != "" {
			f.doc = "\n" + f.doc
		}
		if i < library {
			out.WriteString(f.doc + f.text)
		} else {
			own.WriteString(f.doc + f.text)
		}
	}
	if library > 0 {
		out.WriteString("\n")
	}
	if fast {
		each, err := p.header.eachSession(own.String(), p.body)
		return out.String() + each, err
	}
	out.WriteString(bindings(p.header.Args, 0) + own.String() + p.body)
	return out.String(), nil
}

const fastMark = "\n-- FAST\n"

// sections returns the functions of both paths, which stand above -- FAST, and the text of one
// path, which stands below -- FAST or -- FULL.
func sections(body, path string) (both, own string) {
	var texts [2]strings.Builder
	here, at := true, 0
	if !strings.Contains(body, fastMark) {
		at = 1
	}
	for line := range strings.Lines(body) {
		switch strings.TrimSpace(line) {
		case "-- FAST":
			here, at = path == "fast", 1
		case "-- FULL":
			here, at = path == "full", 1
		default:
			if here {
				texts[at].WriteString(line)
			}
		}
	}
	return texts[0].String(), texts[1].String()
}

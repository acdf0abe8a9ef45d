package lua

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// globals are the names that Redis gives a script, apart from those that every script makes locals.
const globals = "redis KEYS ARGV pcall tonumber tostring type ipairs pairs next unpack string table math cjson"

// foreign are the fields of tables that a script does not make: errors of redis.pcall, and stored
// JSON. The words are those of a session's queue settings.
var foreign = map[string]string{
	"":       "err",
	"accept": "mode cap drop debounce_ms new old summarize",
	"claim":  "v messages entries",
	"pause":  "at disabled paused",
	"rerun":  "status",
	"undo":   "status",
}

// check finds misspelt names in a script: of a local, a function, a key or an argument, and of a
// table's field. It returns the fields that the script reads and writes.
func (s Script) check() (read, written map[string]bool, err error) {
	if s.run != nil {
		return nil, nil, s.run
	}
	chunk, err := parse.Parse(strings.NewReader(s.Source), s.Name)
	if err != nil {
		return nil, nil, err
	}
	proto, err := lua.Compile(chunk, s.Name)
	if err != nil {
		return nil, nil, err
	}
	for name := range globalsOf(proto) {
		if !slices.Contains(strings.Fields(globals), name) {
			return nil, nil, fmt.Errorf("nothing declares %s", name)
		}
	}
	read, written = map[string]bool{}, map[string]bool{}
	fields(reflect.ValueOf(chunk), read, written)
	for _, name := range strings.Fields(foreign[""] + " " + foreign[s.Name]) {
		read[name], written[name] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if !written[name] {
			return nil, nil, fmt.Errorf("no table has the field %s", name)
		}
	}
	return read, written, nil
}

var (
	runField = regexp.MustCompile(`(?:^|[^.\w])run\.([a-z_]+)`)
	runRead  = regexp.MustCompile(`fields\(s\.run, ([^)]*)\)`)
)

// checkRun finds fields of the run record that are used by the script or its functions, but not
// read from Redis. They would be nil.
func (p *parts) checkRun() error {
	read, looked := map[string]bool{}, map[string]bool{}
	p.each(func(code string) string {
		for _, m := range runRead.FindAllStringSubmatch(code, -1) {
			for _, field := range strings.Split(m[1], ", ") {
				read[strings.Trim(field, "'")] = true
			}
		}
		for _, m := range runField.FindAllStringSubmatch(bare(code), -1) {
			looked[m[1]] = true
		}
		return code
	})
	for _, field := range slices.Sorted(maps.Keys(looked)) {
		if !read[field] {
			return fmt.Errorf("it looks at run.%s and does not read it", field)
		}
	}
	return nil
}

// globalsOf returns the globals that a function and those within it read or write.
func globalsOf(f *lua.FunctionProto) map[string]bool {
	found := map[string]bool{}
	for _, instruction := range f.Code {
		if op := int(instruction >> 26); op == lua.OP_GETGLOBAL || op == lua.OP_SETGLOBAL {
			found[f.Constants[instruction&0x3ffff].String()] = true
		}
	}
	for _, inner := range f.FunctionPrototypes {
		maps.Copy(found, globalsOf(inner))
	}
	return found
}

// fields collects the fields of tables that a part of a syntax tree reads and writes.
func fields(v reflect.Value, read, written map[string]bool) {
	switch v.Kind() {
	case reflect.Interface:
		fields(v.Elem(), read, written)
	case reflect.Slice:
		for i := range v.Len() {
			fields(v.Index(i), read, written)
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		switch node := v.Interface().(type) {
		case *ast.AssignStmt:
			for _, left := range node.Lhs {
				if target, ok := left.(*ast.AttrGetExpr); ok {
					note(target.Key, written)
					fields(reflect.ValueOf(target.Object), read, written)
					if _, name := target.Key.(*ast.StringExpr); !name {
						fields(reflect.ValueOf(target.Key), read, written)
					}
				}
			}
			fields(reflect.ValueOf(node.Rhs), read, written)
			return
		case *ast.AttrGetExpr:
			if of, ok := node.Object.(*ast.IdentExpr); !ok || !slices.Contains(strings.Fields(globals), of.Value) {
				note(node.Key, read)
			}
		case *ast.Field:
			note(node.Key, written)
		}
		fields(v.Elem(), read, written)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fields(v.Field(i), read, written)
			}
		}
	}
}

func note(key ast.Expr, in map[string]bool) {
	if name, ok := key.(*ast.StringExpr); ok {
		in[name.Value] = true
	}
}

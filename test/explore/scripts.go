package explore

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	luajson "github.com/alicebob/miniredis/v2/gopher-json"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"turnstile/internal/redis/script"
)

var errNoScript = errors.New("NOSCRIPT no matching script")

// scripts runs Lua as the embedded server does. That server makes a Lua state for each call; here
// one state serves all, and each script is compiled once.
type scripts struct {
	db       *Database
	state    *lua.LState
	compiled map[string]*lua.LFunction // by SHA-1
	learnt   map[string]string         // others' scripts by SHA-1
	replaced map[string]string         // by SHA-1: mutations
	names    map[string]string         // of Turnstile's scripts, by SHA-1
}

func newScripts(db *Database) *scripts {
	s := &scripts{
		db: db, state: lua.NewState(lua.Options{SkipOpenLibs: true}),
		compiled: map[string]*lua.LFunction{}, learnt: map[string]string{}, replaced: map[string]string{}, names: map[string]string{},
	}
	for _, known := range script.All() {
		s.names[known.Hash()] = known.Name
	}
	for _, source := range asynqScripts() {
		s.learn(source)
	}
	l := s.state
	for _, open := range []struct {
		name string
		f    lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString}, {lua.MathLibName, lua.OpenMath},
	} {
		l.Push(l.NewFunction(open.f))
		l.Push(lua.LString(open.name))
		l.Call(1, 0)
	}
	l.Push(l.NewFunction(luajson.Loader))
	l.Call(0, 1)
	l.SetGlobal("cjson", l.Get(-1))
	l.Pop(1)
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return s.call(l, true) },
		"pcall":        func(l *lua.LState) int { return s.call(l, false) },
		"error_reply":  func(l *lua.LState) int { return reply(l, "err") },
		"status_reply": func(l *lua.LState) int { return reply(l, "ok") },
	}))
	return s
}

func reply(l *lua.LState, field string) int {
	t := l.NewTable()
	t.RawSetString(field, l.Get(1))
	l.Push(t)
	return 1
}

func (s *scripts) close() { s.state.Close() }

// sha is a script's name for EVALSHA.
func sha(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// learn remembers a script that is not Turnstile's.
func (s *scripts) learn(source string) (hash string) {
	hash = sha(source)
	s.learnt[hash] = source
	return hash
}

func (s *scripts) source(hash string) (source string, ok bool) {
	if source, ok = s.replaced[hash]; ok {
		return source, true
	}
	if known, ok := script.BySHA(hash); ok {
		return known.Source, true
	}
	source, ok = s.learnt[hash]
	return source, ok
}

// run carries out EVALSHA.
func (s *scripts) run(cmd []string) any {
	l, hash := s.state, cmd[1]
	f := s.compiled[hash]
	if f == nil {
		source, ok := s.source(hash)
		if !ok {
			return errNoScript
		}
		chunk, err := parse.Parse(strings.NewReader(source), "script")
		if err != nil {
			return fmt.Errorf("ERR compile: %w", err)
		}
		proto, err := lua.Compile(chunk, "script")
		if err != nil {
			return fmt.Errorf("ERR compile: %w", err)
		}
		f = l.NewFunctionFromProto(proto)
		s.compiled[hash] = f
	}
	n, err := strconv.Atoi(cmd[2])
	if err != nil || n > len(cmd)-3 {
		return errors.New("ERR Number of keys can't be greater than number of args")
	}
	l.SetGlobal("KEYS", texts(l, cmd[3:3+n]))
	l.SetGlobal("ARGV", texts(l, cmd[3+n:]))
	l.Push(f)
	if err := l.PCall(0, 1, nil); err != nil {
		var api *lua.ApiError
		if errors.As(err, &api) {
			return fmt.Errorf("ERR %s", api.Object.String())
		}
		return fmt.Errorf("ERR %w", err)
	}
	result := fromLua(l.Get(-1))
	l.SetTop(0)
	return result
}

func texts(l *lua.LState, list []string) *lua.LTable {
	t := l.CreateTable(len(list), 0)
	for _, text := range list {
		t.Append(lua.LString(text))
	}
	return t
}

// call is redis.call, or redis.pcall, where an error is the result.
func (s *scripts) call(l *lua.LState, raise bool) int {
	cmd := make([]string, l.GetTop())
	for i := range cmd {
		switch a := l.Get(i + 1).(type) {
		case lua.LNumber:
			cmd[i] = a.String()
		case lua.LString:
			cmd[i] = string(a)
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	reply := s.db.dispatch(cmd)
	if err, failed := reply.(error); failed {
		if raise {
			l.RaiseError("%s", err.Error())
		}
		t := l.NewTable()
		t.RawSetString("err", lua.LString(err.Error()))
		l.Push(t)
		return 1
	}
	l.Push(toLua(l, reply))
	return 1
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch a := value.(type) {
	case int:
		return lua.LNumber(a)
	case string:
		return lua.LString(a)
	case status:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(a))
		return t
	case []any:
		t := l.CreateTable(len(a), 0)
		for _, e := range a {
			t.Append(toLua(l, e))
		}
		return t
	}
	return lua.LFalse
}

func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			return 1
		}
	case lua.LNumber:
		return int(v)
	case lua.LString:
		return string(v)
	case *lua.LTable:
		if e, ok := v.RawGetString("err").(lua.LString); ok {
			return errors.New(string(e))
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(s)
		}
		list := []any{}
		for i := 1; ; i++ {
			e := v.RawGetInt(i)
			if e == lua.LNil {
				return list
			}
			list = append(list, fromLua(e))
		}
	}
	return nil
}

package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// redisTimes are the fields of records that have times of Redis' clock.
var redisTimes = []string{"Accepted", "Ended", "StartedAt", "At", "NextAt", "LastActive", "MarkedAt", "Due", "Since"}

// ownTimes are functions that may use both clocks, with the reason.
var ownTimes = map[string]string{
	"internal/program/operator/ls.go lastActive":     "shows an age to a person",
	"internal/program/operator/outbox.go outboxList": "shows an age to a person",
	"pkg/worker/jobs.go feed":                        "all workers have jobs at the same times of the day; a wrong clock makes a job come twice",
	"internal/http/gateway/cookie.go Login":          "a cookie lives for days",
	"internal/http/gateway/cookie.go ofCookie":       "a cookie lives for days",
	"internal/protocol/claimed.go begin":             "keeps the same moment by both clocks",
	"internal/outbox/visit.go run":                   "keeps the same moment by both clocks",
	"internal/protocol/finish.go finishFast":         "keeps the same moment by both clocks",
}

// The clocks of two machines are not compared: stored times are compared with Redis' TIME.
func TestOneClock(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || slices.Contains([]string{"bench", "bench-peers", "chaos", "examples", "test", "tools"}, name)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range clocks(t, name, string(source)) {
			where, _, _ := strings.Cut(found, ": ")
			if ownTimes[where] == "" {
				t.Errorf("%s: take the time from Redis with what is compared", found)
			}
		}
		return nil
	})
	expect.OK(t, err)
}

// The lint finds the places where an earlier version compared two clocks.
func TestTwoClocksAreFound(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a pause's end":    `switch { case off: return time.Now().Add(noEnd); case paused: return time.UnixMilli(state.At) }; return time.Time{}`,
		"a message's end":  `if err != nil || time.Since(m.Ended) > retried { return }`,
		"an index's score": `index(ctx, rdb, time.Now().UnixMilli(), rest)`,
		"a variable":       `now := time.Now().Add(-age); store(now.UnixMilli())`,
		"a difference":     `now := time.Now(); return now.Sub(d.At) > age || m.Accepted.Before(now)`,
		"a stored sum":     `return time.Now().After(d.At.Add(age))`,
		"a sum before":     `return d.At.Add(age).Before(time.Now())`,
		"a variable's sum": `now := time.Now(); return now.After(d.At.Add(age))`,
		"what is left":     `return time.Until(d.At.Add(age))`,
		"a stored copy":    `at := d.At; return time.Since(at)`,
		"a declaration":    `var now = time.Now(); return now.Sub(d.At)`,
		"arguments":        `return older(d.At, time.Now())`,
		"a lock's holder":  `return time.Since(holder.Since)`,
		"a stored field":   `m.Accepted = time.Now()`,
		"a literal":        `return StoredMessage{Accepted: time.Now()}`,
	} {
		if len(clocks(t, "x.go", "package x\nfunc f() {"+body+"}")) == 0 {
			t.Errorf("%s is not found: %s", name, body)
		}
	}
	if len(clocks(t, "x.go", "package x\nvar old = func() bool { return time.Since(m.Ended) > age }")) == 0 {
		t.Error("a function of a variable of the package is not found")
	}
	for _, body := range []string{
		`began := time.Now(); work(); return time.Since(began)`,
		`return time.UnixMilli(state.At).Sub(clock)`,
		`now, err := rdb.Time(ctx).Result(); index(now.UnixMilli())`,
	} {
		expect.List(t, body, clocks(t, "x.go", "package x\nfunc f() {"+body+"}"))
	}
}

// clocks returns where functions of a source use this machine's clock together with Redis'.
func clocks(t *testing.T, name, source string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	expect.OK(t, err)
	for _, decl := range file.Decls {
		in := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		c := clock{own: map[string]bool{}, stored: map[string]bool{}}
		ast.Inspect(decl, c.visit)
		if c.reads && c.converts {
			c.why = append(c.why, "converts a stored number and reads this machine's clock")
		}
		for _, why := range c.why {
			found = append(found, fmt.Sprintf("%s %s: %s", name, in, why))
		}
	}
	return found
}

// clock is a function's use of times.
type clock struct {
	own, stored     map[string]bool // variables with a time of this machine, and of Redis
	reads, converts bool
	why             []string
}

const compares, stores = "compares a stored time with this machine's clock", "gives a stored time this machine's clock"

func (c *clock) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			for i, value := range n.Rhs {
				c.assign(n.Lhs[i], value)
			}
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if len(n.Names) == len(n.Values) {
				c.assign(n.Names[i], value)
			}
		}
	case *ast.KeyValueExpr:
		if name, ok := n.Key.(*ast.Ident); ok && slices.Contains(redisTimes, name.Name) && c.isOwn(n.Value) {
			c.why = append(c.why, stores)
		}
	case *ast.CallExpr:
		c.call(n)
	}
	return true
}

func (c *clock) assign(to, value ast.Expr) {
	name, ok := to.(*ast.Ident)
	if !ok {
		if c.isStored(to) && c.isOwn(value) {
			c.why = append(c.why, stores)
		}
		return
	}
	c.own[name.Name] = c.own[name.Name] || c.isOwn(value)
	c.stored[name.Name] = c.stored[name.Name] || c.isStored(value)
}

func (c *clock) call(n *ast.CallExpr) {
	times := n.Args // the values that the call may compare: its arguments, and a method's receiver
	if method, ok := n.Fun.(*ast.SelectorExpr); ok {
		of := method.X
		if !isTime(of) {
			times = append([]ast.Expr{of}, times...)
		}
		switch method.Sel.Name {
		case "Now":
			c.reads = c.reads || isTime(of)
		case "Since", "Until":
			if isTime(of) {
				c.reads = true
				if c.isStored(n.Args[0]) {
					c.why = append(c.why, compares)
				}
			}
		case "Unix", "UnixMilli", "UnixMicro", "UnixNano":
			c.converts = c.converts || isTime(of)
			if !isTime(of) && c.isOwn(of) {
				c.why = append(c.why, "makes a number of this machine's clock")
			}
		}
	}
	if slices.ContainsFunc(times, c.isOwn) && slices.ContainsFunc(times, c.isStored) {
		c.why = append(c.why, compares)
	}
}

// isOwn reports whether a time is made from this machine's clock.
func (c *clock) isOwn(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return c.own[e.Name]
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (isTime(method.X) && method.Sel.Name == "Now" || keepsClock(method) && c.isOwn(method.X))
	}
	return false
}

// isStored reports whether a time is one of Redis' clock: a field of a record, or made from one.
func (c *clock) isStored(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return c.stored[e.Name]
	case *ast.SelectorExpr:
		return !isTime(e.X) && slices.Contains(redisTimes, e.Sel.Name)
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		return ok && keepsClock(method) && c.isStored(method.X)
	}
	return false
}

// keepsClock reports whether a method returns a time of the same clock as its receiver.
func keepsClock(method *ast.SelectorExpr) bool {
	return slices.Contains([]string{"Add", "AddDate", "UTC", "Local", "Truncate", "Round"}, method.Sel.Name)
}

func isTime(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "time"
}

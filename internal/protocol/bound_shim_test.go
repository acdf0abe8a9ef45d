package protocol_test

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

//go:embed testdata/count.lua
var countLua string

// counted returns a script that also returns how much it has done.
func counted(source string) string {
	return strings.Replace(countLua, "-- the script\n", source+"\n", 1)
}

// work is the work of one call of a script, or the maximum of several calls.
type work struct {
	calls, elements, bytes int
	most                   string // the commands that touch the most elements
}

func (w work) String() string {
	return fmt.Sprintf("%d commands, %d elements, %d bytes (%s)", w.calls, w.elements, w.bytes, w.most)
}

// more reports whether w is more than twice as much as small, with an allowance for the edges of a
// batch. The allowance hides nothing that grows with 50,000 messages or with megabytes.
func (w work) more(small work) bool {
	return w.calls > 2*small.calls+200 || w.elements > 2*small.elements+1000 || w.bytes > 2*small.bytes+16<<10
}

func (w work) max(other work) work {
	if other.bytes+100*other.elements > w.bytes+100*w.elements {
		w.most = other.most
	}
	return work{max(w.calls, other.calls), max(w.elements, other.elements), max(w.bytes, other.bytes), w.most}
}

// errEnough ends a move that sends one batch after another.
var errEnough = errors.New("enough calls are counted")

// enoughCalls of a script show the work of one.
const enoughCalls = 3

// counter is a hook that replaces every known script with its counting text, and notes the keys in
// all commands.
type counter struct {
	tag, taskPrefix, idPrefix string // prefixes of the session's keys, tasks and task IDs

	mu       sync.Mutex
	on       bool
	works    map[string]work // by the script's name
	calls    map[string]int
	commands map[string]int // commands inside the scripts, by name, also those that only read
	touched  []string       // tasks
	seen     map[string]bool
}

func (c *counter) around(cmds []redis.Cmder, send func() error) error {
	names := make([]string, len(cmds))
	for i, cmd := range cmds {
		if names[i] = c.before(cmd); names[i] == errEnough.Error() {
			return errEnough
		}
	}
	err := send() // it may open a connection, which sends commands, too
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, cmd := range cmds {
		if names[i] != "" && cmd.Err() == nil {
			c.take(names[i], cmd)
		}
	}
	if err == nil {
		err = cmds[0].Err()
	}
	return err
}

func (c *counter) before(cmd redis.Cmder) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice(cmd)
	if name = c.replace(cmd); name != "" && c.calls[name] == enoughCalls {
		return errEnough.Error()
	}
	c.calls[name]++
	return name
}

// notice notes the session's keys in a command.
func (c *counter) notice(cmd redis.Cmder) {
	for _, arg := range cmd.Args() {
		s, ok := arg.(string)
		switch {
		case !ok || len(s) > 400:
		case strings.Contains(s, c.tag):
			c.seen[s] = true
		case strings.HasPrefix(s, c.idPrefix):
			c.seen[c.taskPrefix+s] = true
		}
	}
}

// replace turns the call of a script into a call of its counting text.
func (c *counter) replace(cmd redis.Cmder) (name string) {
	args := cmd.Args()
	if !c.on || cmd.Name() != "evalsha" {
		return ""
	}
	sha, _ := args[1].(string)
	s, ok := script.BySHA(sha)
	if !ok {
		return ""
	}
	args[0], args[1] = "eval", counted(s.Source)
	return s.Name
}

func (c *counter) take(name string, cmd redis.Cmder) {
	call, ok := cmd.(redistest.Reply)
	if !ok {
		return
	}
	a, _ := call.Val().([]any)
	n := func(i int) int { v, _ := a[i].(int64); return int(v) }
	text, _ := a[3].(string)
	var by struct {
		Calls  map[string][3]int
		Probes map[string]int
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "[]", "{}")), &by); err != nil {
		panic(err)
	}
	names, _ := a[4].([]any)
	for _, key := range names {
		c.touched = append(c.touched, fmt.Sprint(key))
	}
	for command, n := range by.Probes {
		c.commands[command] += n
	}
	for command, of := range by.Calls {
		c.commands[command] += of[0]
	}
	c.works[name] = work{n(0), n(1), n(2), heaviest(by.Calls)}.max(c.works[name])
	call.SetVal(a[5])
	if err, ok := a[5].(error); ok {
		call.SetErr(err)
	}
}

// heaviest names the three commands that touch the most.
func heaviest(by map[string][3]int) string {
	names := make([]string, 0, len(by))
	for name := range by {
		names = append(names, name)
	}
	weight := func(name string) int { return by[name][2] + 100*by[name][1] }
	sort.Strings(names)
	slices.SortStableFunc(names, func(a, b string) int { return weight(b) - weight(a) })
	var out []string
	for _, name := range names[:min(3, len(names))] {
		out = append(out, fmt.Sprintf("%s %d/%d/%d", name, by[name][0], by[name][1], by[name][2]))
	}
	return strings.Join(out, ", ")
}

// count runs a move and returns the work of its scripts.
func (c *counter) count(move func() error) (map[string]work, error) {
	c.mu.Lock()
	c.works, c.calls, c.commands, c.on = map[string]work{}, map[string]int{}, map[string]int{}, true
	c.mu.Unlock()
	err := move()
	if errors.Is(err, errEnough) {
		err = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	return c.works, err
}

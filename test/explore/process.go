package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Process is a program in a search.
type Process struct {
	Name string

	// Run is the program: its calls of Life.Redis are its steps. It must be a function of their
	// replies, and make one call after the other.
	Run func(*Life)

	// When reports whether a life may begin, by the database's content. Nil: at once.
	When func(View) bool

	// Until reports whether Life.Pause is over.
	Until func(View) bool

	// Loops lets a new life begin after each. Otherwise there is one.
	Loops bool

	// Atomic lets no other process come between the steps of a life. It is for processes that a
	// configuration needs but does not check.
	Atomic bool

	// Lazy lets a life begin only when no process that is not lazy has a step to make.
	Lazy bool

	// Crashes lets a life end at any step.
	Crashes bool
}

// Life is one run of a process, from its start to its end or crash.
type Life struct {
	// Context ends with the life.
	Context context.Context

	// Redis carries out the process's commands, one a step.
	Redis *redis.Client

	proc, number int
	drawn        int // random names so far
	facts        []string
	sent         [][]string
}

// Report records a fact for the checks, such as that a message was accepted. It is a part of the
// step before it.
func (l *Life) Report(words ...any) {
	l.facts = append(l.facts, strings.TrimSuffix(fmt.Sprintln(words...), "\n"))
}

// Last is the last command with this name that the life has got a reply to, for it to come again late.
func (l *Life) Last(name string) (cmd []any) {
	for _, words := range slices.Backward(l.sent) {
		if CommandName(words) != name {
			continue
		}
		for _, word := range words {
			cmd = append(cmd, word)
		}
		return cmd
	}
	return nil
}

// pause is the request of a Pause. It does not reach Redis.
const pause = "explore-pause"

// Pause is a step that waits for Process.Until. After it the process's clock is equal to Redis's.
func (l *Life) Pause() {
	now, _ := l.Redis.Do(l.Context, pause).Int64() // after an error the life continues at once
	time.Sleep(time.Until(time.UnixMilli(now)))
}

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// Read is crypto/rand's source while a life runs. A rand.Text made from it begins with a mark for the
// canonical form. It is unique: it names the process, the life and how many names were drawn before.
func (l *Life) Read(p []byte) (int, error) {
	text := nameMark + string([]byte{
		base32[l.proc%32], base32[l.number/32%32], base32[l.number%32], base32[l.drawn/32%32], base32[l.drawn%32],
	})
	l.drawn++
	for i := range p {
		p[i] = 0
		if i < len(text) {
			p[i] = byte(strings.IndexByte(base32, text[i]))
		}
	}
	return len(p), nil
}

// lifeOf is the process and the number of the life that has drawn a name.
func lifeOf(name string) (proc, number int) {
	at := func(i int) int { return strings.IndexByte(base32, name[i]) }
	return at(2), at(3)*32 + at(4)
}

// Package agents are the recording agents: a command of exec, an ACP agent and a model's server.
// Each takes a kernel lock of its session while it runs and writes its turns to the history.
package agents

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Plan is the agent's task in a message's text. The text names the message, because not every protocol
// passes the ID on.
type Plan struct {
	Session, ID string
	Work        time.Duration // how long it works
	Tools       int           // how many tools it uses
	End         string        // history.End...
}

// Text is the plan as a message's text.
func (p Plan) Text() string {
	return fmt.Sprintf("chaos s=%s id=%s ms=%d tools=%d end=%s;", p.Session, p.ID, p.Work.Milliseconds(), p.Tools, p.End)
}

var planText = regexp.MustCompile(`chaos s=(\S+) id=(\S+) ms=(\d+) tools=(\d+) end=([a-z]+);`)

// Plans finds all plans in a text, in their order.
func Plans(text string) (all []Plan) {
	for _, m := range planText.FindAllStringSubmatch(text, -1) {
		ms, _ := strconv.Atoi(m[3])
		tools, _ := strconv.Atoi(m[4])
		all = append(all, Plan{Session: m[1], ID: m[2], Work: time.Duration(ms) * time.Millisecond, Tools: tools, End: m[5]})
	}
	return all
}

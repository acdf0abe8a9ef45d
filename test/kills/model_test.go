//go:build linux

package kills_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"turnstile/test/kills"
	"turnstile/test/modelserver"
)

// noted is the note before the message of a turn that was interrupted before it had a step: it begins again.
var noted = regexp.MustCompile(`\[System note: [^\]]*\](\n\n|\\n\\n)`)

// model plays the model's server. It lets the model call the turn's steps in their order.
type model struct {
	server *modelserver.Server
	killer *killer
	host   kills.Host

	mu    sync.Mutex
	turns map[string]*asked // by message

	requests, repeated, unequal, stored int
	findings                            []string
}

// asked is what a message's turn has asked for.
type asked struct {
	bodies []string        // the first of each number
	kept   map[string]bool // nonces of stored results
}

func newModel(t *testing.T, k *killer, host kills.Host) *model {
	t.Helper()
	m := &model{server: modelserver.New(t), killer: k, host: host, turns: map[string]*asked{}}
	m.server.Otherwise(m.respond)
	return m
}

func (m *model) respond(q modelserver.Request) modelserver.Response {
	worker := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")
	at := len(q.Messages) - 1
	for at > 0 && q.Messages[at].Role != "user" {
		at--
	}
	message, number := noted.ReplaceAllString(q.Messages[at].Text(), ""), 0
	var results []kills.Result
	for _, line := range q.Messages[at+1:] {
		switch line.Role {
		case "assistant":
			number++
		case "tool":
			var r kills.Result
			if json.Unmarshal([]byte(line.Text()), &r) == nil {
				results = append(results, r)
			}
		}
	}
	m.see(message, number, noted.ReplaceAllString(string(q.Body), ""), results)
	steps := []modelserver.Step{
		modelserver.Text("I "), modelserver.Do(func() { m.killer.at(worker, "in a response") }), modelserver.Text("act. "),
	}
	// Every second message has two calls in each response.
	calls := 1
	if strings.HasSuffix(message, "1") {
		calls = 2
	}
	if number*calls >= kills.Steps {
		return modelserver.Stream(steps[0], steps[1], modelserver.Text("done "+message), modelserver.Use(1, 1))
	}
	for n := number * calls; n < (number+1)*calls; n++ {
		steps = append(steps, modelserver.Call(fmt.Sprint("c", n), kills.Name(n), fmt.Sprintf(`{"message": %q}`, message)))
	}
	return modelserver.Stream(append(steps, modelserver.Use(1, 1))...)
}

// see compares a request with those before it, and records the results that it has.
func (m *model) see(message string, number int, body string, results []kills.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := m.turns[message]
	if turn == nil {
		turn = &asked{kept: map[string]bool{}}
		m.turns[message] = turn
	}
	m.requests++
	switch known := len(turn.bodies); {
	case number > known:
		m.finds("%s: request %d came without request %d", message, number, known)
	case number == known:
		turn.bodies = append(turn.bodies, body)
	default:
		m.repeated++
		if number < known-1 {
			m.stored++
			m.finds("%s: request %d came again after request %d", message, number, known-1)
		}
		if body != turn.bodies[number] {
			m.unequal++
			m.finds("%s: request %d came as\n%s\nand as\n%s", message, number, turn.bodies[number], body)
		}
	}
	for _, r := range results {
		if turn.kept[r.Nonce] {
			continue
		}
		turn.kept[r.Nonce] = true
		if err := m.host.Record(kills.Act{What: kills.Stored, Message: message, N: r.N, Nonce: r.Nonce}); err != nil {
			m.finds("the record: %v", err)
		}
	}
}

func (m *model) finds(format string, args ...any) {
	m.findings = append(m.findings, fmt.Sprintf(format, args...))
}

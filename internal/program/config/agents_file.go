package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/text/printable"
	"turnstile/internal/text/strictjson"
)

// NamedAgent is an agent of TURNSTILE_AGENTS_FILE.
type NamedAgent struct {
	AgentSettings
	Name string

	// Sessions are the patterns of its sessions, as in agents.New.
	Sessions []string

	// Set are the variables of its key env, as NAME=VALUE, and Own those that this one and ..._env name.
	Set, Own []string
}

// As returns the settings with another agent's.
func (w Worker) As(n NamedAgent) Worker {
	w.AgentSettings, w.AgentName, w.AgentSet = n.AgentSettings, n.Name, n.Set
	return w
}

// ownVariables keeps the variables with agents' keys from all programs. An agent that wants one by its name has made a
// mistake.
func (w *Worker) ownVariables() error {
	for _, n := range w.Agents {
		w.AgentsOwn = append(w.AgentsOwn, n.Own...)
	}
	var problems []error
	wants := func(whose string, names []string) {
		for _, name := range names {
			if slices.Contains(w.AgentsOwn, name) {
				problems = append(problems, fmt.Errorf(`%s: agent_env names %s, which is a key of an agent: write "env": {"NAME": {"from": %q}}`, whose, name, name))
			}
		}
	}
	wants("the environment's agent", w.AgentEnv)
	for _, n := range w.Agents {
		wants(fmt.Sprintf("agent %q", n.Name), n.AgentEnv)
	}
	return errors.Join(problems...)
}

// Runs reports whether this worker runs the agent with a name.
func (w Worker) Runs(name string) bool { return len(w.Pool) == 0 || slices.Contains(w.Pool, name) }

// judgePool finds names that are no agents.
func (p *problems) judgePool(w Worker) {
	for _, name := range w.Pool {
		switch {
		case name == agents.Default && w.Agent == "":
			p.add("TURNSTILE_AGENTS", "has default, but TURNSTILE_AGENT is not set: leave it out, or set that")
		case name != agents.Default && !slices.ContainsFunc(w.Agents, func(n NamedAgent) bool { return n.Name == name }):
			p.add("TURNSTILE_AGENTS", "has %.100q, which is no agent of TURNSTILE_AGENTS_FILE: name some of those, or default", name)
		}
	}
}

// AnyRunsPrograms reports whether any of the agents that run here runs programs on the worker's machine.
func (w Worker) AnyRunsPrograms() bool {
	alone := (w.Agent != "" || len(w.Agents) == 0) && w.Runs(agents.Default)
	return alone && w.RunsPrograms() || slices.ContainsFunc(w.Agents, func(n NamedAgent) bool { return w.Runs(n.Name) && n.RunsPrograms() })
}

// Problem returns an error about the agent's settings as one about its entry in the file. Each of its
// problems is one line.
func (n NamedAgent) Problem(err error) error {
	var problems []error
	for line := range strings.Lines(err.Error()) {
		problems = append(problems, fmt.Errorf("%w TURNSTILE_AGENTS_FILE: agent %q: %s", ErrInvalid, n.Name, inFile(strings.TrimSpace(line))))
	}
	return errors.Join(problems...)
}

// LoadAgents reads TURNSTILE_AGENTS_FILE for a command that runs no agent. The agents have no secrets, which need
// not be there.
func LoadAgents(path string) ([]NamedAgent, error) {
	list, err := readAgents(path, nil, func(string) bool { return true })
	if err == nil {
		return list, nil
	}
	p := problems{}
	p.addAll("TURNSTILE_AGENTS_FILE", err)
	return nil, p.err()
}

// maxAgentsFile bounds the reading of a wrong file.
const maxAgentsFile = 4 << 20

// readAgents reads TURNSTILE_AGENTS_FILE. An agent has the settings of AgentSettings by their names
// in lower case, without the prefix: {"support": {"sessions": ["acme:*"], "agent": "model",
// "model": "..."}}. What it leaves out has the setting's default, not the environment's value: one
// agent's command must not run for another. A secret is in the file that NAME_file names, or in the
// variable of environ that NAME_env names. Without environ none is read, and none of an agent that does not run here. The
// error joins all problems, each one line.
func readAgents(path string, environ map[string]string, runs func(name string) bool) ([]NamedAgent, error) {
	shown := printable.Line(path)
	f, err := os.Open(path)
	if err != nil {
		return nil, FileProblem(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAgentsFile+1))
	if err != nil {
		return nil, FileProblem(err)
	}
	if len(data) > maxAgentsFile {
		return nil, fmt.Errorf("%s has more than %d bytes: is it the right file?", shown, maxAgentsFile)
	}
	var entries map[string]map[string]json.RawMessage
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch err := strictjson.DecodeNamed(data, &entries); {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("%s: line %d: %w", shown, 1+bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")), err)
	case err != nil && !errors.As(err, &wrong):
		return nil, fmt.Errorf("%s: %w", shown, err)
	case err != nil || len(entries) == 0:
		return nil, fmt.Errorf(`%s is no JSON object with agents by name, such as {"support": {"sessions": ["acme:*"], "agent": "claude"}}`, shown)
	}
	var list []NamedAgent
	var problems []error
	sessions := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		own := environ
		if !runs(name) {
			own = nil
		}
		a, err := readAgent(name, entries[name], own)
		list, problems = append(list, a), append(problems, err)
		if err == nil || len(a.Sessions) > 0 { // else a mistake may be why they are missing
			sessions[name] = a.Sessions
		}
	}
	_, err = agents.New(sessions)
	return list, errors.Join(append(problems, err)...)
}

// readAgent reads one agent's entry.
func readAgent(name string, entry map[string]json.RawMessage, environ map[string]string) (NamedAgent, error) {
	a, vars := NamedAgent{Name: name}, map[string]string{}
	for _, of := range providers { // such as OPENAI_API_KEY, which all agents share
		vars[of.urlName], vars[of.keyName] = environ[of.urlName], environ[of.keyName]
	}
	unread := map[string]bool{}
	var problems []error
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("agent %q: "+format, append([]any{name}, args...)...))
	}
	known := entryKeys()
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		value := entry[key]
		setting, form := known[key].setting, known[key].form
		switch {
		case key == "sessions":
			if json.Unmarshal(value, &a.Sessions) != nil {
				wrong(`sessions is no list of patterns: write it as ["acme:*"]`)
			}
			continue
		case key == "env":
			if environ != nil {
				var err error
				a.Set, a.Own, err = mapped(value, a.Own, environ)
				if err != nil {
					wrong("env: %w", err)
				}
			}
			continue
		case setting == "":
			hint := "leave it out"
			if now := renamedKey(key); now != "" {
				hint = "it is called " + now + " now"
			} else if near := nearest(key, slices.Sorted(maps.Keys(known))); near != "" {
				hint = "did you mean " + near + "?"
				unread[known[near].setting] = true
			}
			wrong("%.100q is unknown: %s", key, hint)
			continue
		}
		if form != "" && environ == nil {
			continue // a secret
		}
		text, err := textOf(value, known[key].between)
		if err != nil {
			wrong("%s: %w", key, err)
			unread[setting] = true
			continue
		}
		if form == "env" {
			if environ[text] == "" {
				if !variableName.MatchString(text) {
					text = "..." // it may be the secret itself
				}
				wrong("%s names the variable %.100q, which is not set", key, text)
				unread[setting] = true
			}
			vars[setting] = environ[text]
			a.Own = append(a.Own, text)
			continue
		}
		vars[setting+form] = text
	}
	_, p := parse(&a.AgentSettings, vars, Options{})
	maps.Copy(p.failed, unread)
	p.judgeAgent(a.AgentSettings, "")
	for _, err := range p.list {
		wrong("%s", inFile(err.Error()))
	}
	return a, errors.Join(problems...)
}

// mapped reads the key env: {"NAME": {"from": "VARIABLE"}} gives the agent's programs the worker's VARIABLE as NAME.
func mapped(value json.RawMessage, own []string, environ map[string]string) (set, all []string, err error) {
	var names map[string]struct {
		From string `json:"from"`
	}
	if err := strictjson.DecodeNamed(value, &names); err != nil {
		return nil, own, errors.New(`write it as {"NAME": {"from": "VARIABLE"}}`)
	}
	fits := func(name string) bool { // else it is the worker's own, or a key in place of a name
		return variableName.MatchString(name) && name != "REDIS_URL" && !strings.HasPrefix(name, prefix)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		from := names[name].From
		switch {
		case !fits(name):
			return nil, own, fmt.Errorf("%.100q is no name for a variable of an agent", name)
		case !fits(from):
			return nil, own, fmt.Errorf("%s: from is no name of a variable that agents may have", name)
		case environ[from] == "":
			return nil, own, fmt.Errorf("%s: from names the variable %s, which is not set", name, from)
		}
		set, own = append(set, name+"="+environ[from]), append(own, from)
	}
	return set, own, nil
}

// entryKey is the setting that a key of an entry has, and how.
type entryKey struct {
	setting string
	form    string // "": its value; "_FILE": the file with the value; "env": the variable with the value
	between string // what separates the items of a list in the variable. "": it is no list
}

// listUnits are the units of lists, with what separates their items in a variable.
var listUnits = map[string]string{"names": ",", "senders": ",", "ports": ",", "paths": ":"}

// entryKeys returns the keys of an entry.
func entryKeys() map[string]entryKey {
	keys := map[string]entryKey{"sessions": {}, "env": {}}
	for _, s := range settingsOf(reflect.TypeFor[AgentSettings]()) {
		key := strings.ToLower(strings.TrimPrefix(s.Name, prefix))
		keys[key] = entryKey{setting: s.Name, between: listUnits[s.Unit]}
		if s.File {
			keys[key+"_file"] = entryKey{setting: s.Name, form: "_FILE"}
			keys[key+"_env"] = entryKey{setting: s.Name, form: "env"}
		}
	}
	return keys
}

// renamedKey is what a key of the version before is called now, or "".
func renamedKey(key string) string {
	name, variable := strings.CutSuffix(key, "_env")
	now := strings.ToLower(strings.TrimPrefix(renamed[prefix+strings.ToUpper(name)], prefix))
	if now != "" && variable {
		now += "_env"
	}
	return now
}

// variableName is a variable of the environment, as people write them.
var variableName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// textOf returns a value as a variable of the environment has it.
func textOf(value json.RawMessage, between string) (string, error) {
	var items []json.RawMessage
	if between != "" && json.Unmarshal(value, &items) == nil {
		texts := make([]string, len(items))
		for i, item := range items {
			var err error
			if texts[i], err = textOf(item, ""); err != nil {
				return "", err
			}
		}
		return strings.Join(texts, between), nil
	}
	var text string
	var number json.Number
	var flag bool
	switch {
	case json.Unmarshal(value, &text) == nil:
		return text, nil
	case json.Unmarshal(value, &flag) == nil:
		return strconv.FormatBool(flag), nil
	case json.Unmarshal(value, &number) == nil:
		return number.String(), nil
	}
	return "", errors.New("write it as one text, number, true or false")
}

// settingName is a setting in the text of a problem.
var settingName = regexp.MustCompile(prefix + `[A-Z_]+`)

// inFile rewrites a problem with settings for the file, which has their names in lower case.
func inFile(problem string) string {
	problem = strings.TrimPrefix(problem, ErrInvalid.Error()+" ")
	known := entryKeys()
	return settingName.ReplaceAllStringFunc(problem, func(name string) string {
		if key := strings.ToLower(strings.TrimPrefix(name, prefix)); known[key].setting != "" {
			return key
		}
		return name
	})
}

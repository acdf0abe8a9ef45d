package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/pattern"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

// File is a file of servers, in the form that other programs read, too:
//
//	{"mcpServers": {"NAME": {"command": "npx", "args": ["..."], "env": {"KEY": "${KEY}"}},
//	                "NAME": {"url": "https://...", "headers": {"Authorization": "Bearer ${TOKEN}"}}},
//	 "ask": [{"tools": "mcp__NAME__*", "approvers": ["ops/*"]}]}
//
// Keys of other programs are ignored.
type File struct {
	Path    string   // absolute
	Servers []Server // by name
	Ask     []Ask
}

// Server is one server, with its references to variables replaced. It has a Command or a URL.
type Server struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string
	Type    string // as the file has it; empty: by the Command or the URL
	URL     string
	Refers  bool // URL had a reference
	SSE     bool // the transport that came before streamable HTTP
	Headers map[string]string
	Trust   bool // its tools need no permission, where an agent knows this

	// Variables are those that Env, URL and Headers refer to, as NAME=VALUE.
	Variables []string

	// Referring are the keys of Env with a reference.
	Referring []string

	secrets []string // no error has these
}

// Ask has the tools for which the agent model asks the user, by a pattern of their names. The first that fits counts.
type Ask struct {
	Tools     string   `json:"tools"`
	Approvers []string `json:"approvers"`
}

// entry is a server in the file.
type entry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
	Trust    bool              `json:"trust"`
}

var (
	serverName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
	toolNames  = regexp.MustCompile(`^[a-zA-Z0-9_*-]+$`)
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	header     = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	reference  = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)
)

// Load reads a file. The error has a line for each problem, and no value of the file.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var raw struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		Ask     []json.RawMessage          `json:"ask"`
	}
	if err := boundedjson.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%s: it is not a JSON object with servers: %w", path, err)
	}
	if raw.Servers == nil {
		return nil, fmt.Errorf(`%s: it has no "mcpServers"`, path)
	}
	f := &File{Path: abs}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(raw.Servers)) {
		var e entry
		err := boundedjson.Unmarshal(raw.Servers[name], &e)
		if err == nil && e.Disabled {
			continue
		}
		var s Server
		if err == nil {
			s, err = e.server(name)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: server %.60q: %w", path, name, err))
		}
		f.Servers = append(f.Servers, s)
	}
	for i, text := range raw.Ask {
		var a Ask
		err := strictjson.Decode(text, &a) // no other program has it, so a key that is unknown is a mistake
		if err == nil {
			err = f.checkAsk(a)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: ask %d: %w", path, i+1, err))
		}
		f.Ask = append(f.Ask, a)
	}
	return f, errors.Join(problems...)
}

// Variables are those that the servers refer to, as NAME=VALUE, for programs that replace the references themselves.
func (f *File) Variables() (all []string) {
	for _, s := range f.Servers {
		all = append(all, s.Variables...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Words are the words of the servers' programs, for agents that start them: a confined one may read the files that
// these name. nil has none.
func (f *File) Words() (words []string) {
	if f == nil {
		return nil
	}
	for _, s := range f.Servers {
		if path, err := exec.LookPath(s.Command); err == nil {
			words = append(words, path)
		}
		words = append(words, s.Args...)
	}
	return append(words, f.Path)
}

func (e entry) server(name string) (Server, error) {
	s := Server{Name: name, Type: e.Type, Command: e.Command, Args: e.Args, Env: map[string]string{}, Headers: map[string]string{}, SSE: e.Type == "sse", Trust: e.Trust}
	where, err := url.Parse(e.URL)
	switch {
	case !serverName.MatchString(name):
		return s, errors.New("use at most 40 letters, digits, _ and - for the name")
	case (e.Command == "") == (e.URL == ""):
		return s, errors.New("it needs either a command or a url")
	case e.Command == "" && (len(e.Args) > 0 || len(e.Env) > 0), e.URL == "" && len(e.Headers) > 0:
		return s, errors.New("args and env belong to a command, headers to a url")
	case !slices.Contains([]string{"", "stdio", "http", "streamable-http", "sse"}, e.Type) || e.Type != "" && (e.Type == "stdio") != (e.Command != ""):
		return s, fmt.Errorf("the type %.40q does not fit: use stdio for a command, http or sse for a url, or leave it out", e.Type)
	case strings.ContainsAny(e.Command, "/") && !filepath.IsAbs(e.Command):
		return s, errors.New("its command is a relative path: write an absolute one, for agents work in other directories")
	case strings.Contains(e.Command+strings.Join(e.Args, ""), "\x00"):
		return s, errors.New("its command contains a zero byte")
	case slices.ContainsFunc(append([]string{e.Command}, e.Args...), reference.MatchString):
		return s, errors.New("its command or args have a ${NAME}, which all users of the machine could read: only env, headers and url may have one")
	case e.URL != "" && (err != nil || where.Host == "" || where.Scheme != "http" && where.Scheme != "https"):
		return s, errors.New("its url is not an address: write it as https://HOST/PATH")
	}
	if s.URL, err = s.replace(e.URL); err != nil {
		return s, err
	}
	s.Refers = s.URL != e.URL
	if where, err = url.Parse(s.URL); err != nil {
		return s, errors.New("its url is not an address once its variables are replaced")
	}
	if s.URL != "" && (where.RawQuery != "" || where.User != nil) {
		s.secrets = append(s.secrets, where.RawQuery, where.User.String(), where.User.Username())
	}
	for _, key := range slices.Sorted(maps.Keys(e.Env)) {
		value, err := s.replace(e.Env[key])
		switch {
		case err != nil:
			return s, err
		case !variable.MatchString(key) || private(key):
			return s, fmt.Errorf("env: %.60q cannot be a server's variable", key)
		case strings.Contains(value, "\x00"):
			return s, fmt.Errorf("env: the value of %s contains a zero byte", key)
		case value != e.Env[key]:
			s.Referring = append(s.Referring, key)
			s.secrets = append(s.secrets, value)
		}
		s.Env[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(e.Headers)) {
		value, err := s.replace(e.Headers[key])
		switch {
		case err != nil:
			return s, err
		case !header.MatchString(key) || strings.ContainsAny(value, "\r\n\x00"):
			return s, fmt.Errorf("headers: %.60q cannot be a header, or its value has a line break", key)
		}
		s.Headers[key] = value
		s.secrets = append(s.secrets, value)
	}
	return s, nil
}

// replace replaces each ${NAME} and ${NAME:-DEFAULT} in a text.
func (s *Server) replace(text string) (replaced string, err error) {
	replaced = reference.ReplaceAllStringFunc(text, func(ref string) string {
		parts := reference.FindStringSubmatch(ref)
		name, other := parts[1], parts[2]
		value := os.Getenv(name)
		switch {
		case private(name):
			err = fmt.Errorf("${%s}: the worker's own settings are not for servers", name)
		case value == "" && other == "":
			err = fmt.Errorf("the variable %s is not set: set it for the worker, or write ${%s:-DEFAULT}", name, name)
		case value == "":
			value = strings.TrimPrefix(other, ":-")
		default:
			s.secrets = append(s.secrets, value)
			s.Variables = append(s.Variables, name+"="+value)
		}
		return value
	})
	return replaced, err
}

// private reports whether a variable is the worker's own.
func private(name string) bool {
	return name == "REDIS_URL" || name == "REDIS_URL_FILE" || strings.HasPrefix(name, "TURNSTILE_")
}

// checkAsk refuses a pattern that fits no tool: its tools would run without a question.
func (f *File) checkAsk(a Ask) error {
	if !toolNames.MatchString(a.Tools) {
		return errors.New("tools is not a pattern of names: write it as mcp__SERVER__TOOL, where * is any characters")
	}
	head, _, stars := strings.Cut(a.Tools, "*")
	if !slices.ContainsFunc(f.Servers, func(s Server) bool {
		own := prefix + s.Name + between
		return strings.HasPrefix(head, own) || stars && strings.HasPrefix(own, head)
	}) {
		return errors.New("no server has a tool with such a name: write it as mcp__SERVER__TOOL, where * is any characters")
	}
	return session.ValidateApprovers(a.Approvers)
}

// asking returns the first pattern that fits one of a tool's names.
func (f *File) asking(names ...string) (Ask, bool) {
	for _, a := range f.Ask {
		if slices.ContainsFunc(names, func(name string) bool { return pattern.Fits(a.Tools, name) }) {
			return a, true
		}
	}
	return Ask{}, false
}

package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// ErrInvalid is wrapped by every error about a setting.
var ErrInvalid = errors.New("setting")

// Options are options of LoadWorker and LoadSender.
type Options struct {
	// Overrides replace variables of the environment. They come from the command line's flags.
	Overrides map[string]string

	// Defaults replace the tags' defaults of variables that are unset or empty; see DevDefaults.
	Defaults map[string]string

	// NoAgent makes TURNSTILE_AGENT optional, for commands that run no turn.
	NoAgent bool
}

// LoadWorker reads the worker's settings from environ, which has the form of os.Environ, and
// validates them. The error joins all problems; each is one line and wraps ErrInvalid.
func LoadWorker(environ []string, o Options) (Worker, error) {
	var w Worker
	vars, problems := load(&w, environ, o)
	w.RedisURLSet = vars["REDIS_URL"] != ""
	problems.judgeWorker(w, o)
	if vars["TURNSTILE_WARM_AGENTS"] == "" {
		w.WarmAgents = w.Concurrency
	}
	if vars["TURNSTILE_WAITING_AGENTS"] == "" {
		w.WaitingAgents = w.Concurrency
	}
	if path := w.AgentsFile; path != "" {
		var err error
		if w.Agents, err = readAgents(path, vars, w.Runs); err != nil {
			problems.addAll("TURNSTILE_AGENTS_FILE", err)
		}
		if err := w.ownVariables(); err != nil {
			problems.addAll("TURNSTILE_AGENTS_FILE", err)
		}
		for _, a := range w.Agents {
			if a.AgentTimeout >= min(w.TranscriptTTL, w.SessionTTL) {
				problems.addAll("TURNSTILE_AGENTS_FILE", fmt.Errorf("agent %q: agent_timeout=%v is too long: TURNSTILE_TRANSCRIPT_TTL and TURNSTILE_SESSION_TTL must be longer", a.Name, a.AgentTimeout))
			}
		}
	}
	problems.judgePool(w)
	return w, problems.err()
}

// LoadSender does the same for the sender's settings.
func LoadSender(environ []string, o Options) (Sender, error) {
	var s Sender
	_, problems := load(&s, environ, o)
	problems.judgeSender(s)
	return s, problems.err()
}

// LoadGateway does the same for the gateway's settings.
func LoadGateway(environ []string, o Options) (Gateway, error) {
	var g Gateway
	_, problems := load(&g, environ, o)
	problems.judgeGateway(g)
	return g, problems.err()
}

// load fills into, a pointer to a struct of settings. It returns the variables that were set,
// without any defaults.
func load(into any, environ []string, o Options) (map[string]string, *problems) {
	vars := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			vars[name] = value
		}
	}
	maps.Copy(vars, o.Overrides)
	given, p := parse(into, vars, o)
	p.addUnknown()
	return given, p
}

// parse fills into from variables, and returns those that were set, without any defaults.
func parse(into any, vars map[string]string, o Options) (map[string]string, *problems) {
	p := &problems{settings: settingsOf(reflect.TypeOf(into).Elem()), vars: vars, failed: map[string]bool{}}
	p.readFiles(vars, o.Overrides)
	if of, ok := providers[Provider(cmp.Or(vars["TURNSTILE_PROVIDER"], string(ProviderOpenAI)))]; ok {
		usual := cmp.Or(vars[of.urlName], of.url)
		vars["TURNSTILE_MODEL_URL"] = cmp.Or(vars["TURNSTILE_MODEL_URL"], usual)
		if sameServer(vars["TURNSTILE_MODEL_URL"], usual) {
			vars["TURNSTILE_MODEL_KEY"] = cmp.Or(vars["TURNSTILE_MODEL_KEY"], vars[of.keyName])
		}
	}
	given := maps.Clone(vars)
	for name, value := range o.Defaults {
		if vars[name] == "" {
			vars[name] = value
		}
	}

	err := env.ParseWithOptions(into, env.Options{Environment: vars, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[time.Duration]():      func(v string) (any, error) { return parseDuration(v) },
		reflect.TypeFor[session.Mode]():       func(v string) (any, error) { return parseMode(v) },
		reflect.TypeFor[session.DropPolicy](): func(v string) (any, error) { return parseDrop(v) },
	}})
	p.addParseErrors(into, err)
	return given, p
}

// sameServer reports whether two URLs have the same scheme, host and port: a key for one may be sent to the other.
func sameServer(a, b string) bool {
	one, err := url.Parse(a)
	other, failed := url.Parse(b)
	return a == b || err == nil && failed == nil && one.Scheme == other.Scheme && strings.EqualFold(one.Host, other.Host)
}

// addParseErrors adds a problem for every variable that could not be parsed.
func (p *problems) addParseErrors(into any, err error) {
	var all env.AggregateError
	if err == nil {
		return
	}
	if !errors.As(err, &all) {
		p.list = append(p.list, fmt.Errorf("%w: %w", ErrInvalid, err))
		return
	}
	structType := reflect.TypeOf(into).Elem()
	for _, err := range all.Errors {
		var bad env.ParseError
		field, ok := reflect.StructField{}, false
		if errors.As(err, &bad) {
			field, ok = structType.FieldByName(bad.Name)
		}
		if !ok {
			p.list = append(p.list, fmt.Errorf("%w: %w", ErrInvalid, err))
			continue
		}
		p.add(field.Tag.Get("env"), "%s", complaint(field.Type, bad.Err))
	}
}

// complaint is the reason why a value could not be parsed. The text continues a sentence that
// begins with the value.
func complaint(typ reflect.Type, err error) string {
	switch {
	case typ == reflect.TypeFor[slog.Level]():
		return "is unknown: use debug, info, warn or error"
	case typ.Kind() == reflect.Bool:
		return "is neither true nor false"
	case typ.Kind() == reflect.Int && errors.Is(err, strconv.ErrRange):
		return "is too large a number"
	case typ.Kind() == reflect.Int:
		return "is not a whole number: write it as 10"
	}
	return err.Error()
}

func parseMode(text string) (session.Mode, error) {
	mode, err := wire.ParseMode(text)
	if err != nil {
		return "", errors.New("is unknown: use queue, collect, steer, interrupt, rollback or reject")
	}
	return mode, nil
}

func parseDrop(text string) (session.DropPolicy, error) {
	drop, err := wire.ParseDropPolicy(text)
	if err != nil {
		return "", errors.New("is unknown: use new, old or summarize")
	}
	return drop, nil
}

const prefix = "TURNSTILE_"

// foreign are variables with our prefix that are no settings. Workers set some for agents, which
// may run enqueue. The examples read others, in the same shell as the programs.
var foreign = []string{
	"TURNSTILE_SESSION", "TURNSTILE_SESSION_ID", "TURNSTILE_MESSAGE_ID",
	"TURNSTILE_TURN_ID", "TURNSTILE_FENCE", "TURNSTILE_STEP_KEY", "TURNSTILE_GUARDIAN",
	"TURNSTILE_TOKEN", "TURNSTILE_URL", "TURNSTILE_GATEWAY_URL",
}

// renamed are names of the version before, and what they are called now.
var renamed = map[string]string{
	"TURNSTILE_OPENAI_BASE_URL":     "TURNSTILE_MODEL_URL",
	"TURNSTILE_OPENAI_API_KEY":      "TURNSTILE_MODEL_KEY",
	"TURNSTILE_OPENAI_API_KEY_FILE": "TURNSTILE_MODEL_KEY_FILE",
	"TURNSTILE_OPENAI_FILE":         "TURNSTILE_MODEL_FILE",
	"TURNSTILE_SYSTEM_PROMPT":       "system_prompt in TURNSTILE_MODEL_FILE",
	"TURNSTILE_TEMPERATURE":         "temperature in TURNSTILE_MODEL_FILE",
	"TURNSTILE_MAX_TOKENS":          "max_tokens in TURNSTILE_MODEL_FILE",
	"TURNSTILE_CONTEXT_TOKENS":      "context_tokens in TURNSTILE_MODEL_FILE",
	"TURNSTILE_TOOL_ROUNDS":         "tool_rounds in TURNSTILE_MODEL_FILE",
	"TURNSTILE_TOOL_TIMEOUT":        "tool_timeout in TURNSTILE_MODEL_FILE",
}

// addUnknown adds a problem for each variable with our prefix that no program reads: it is
// probably a misspelt setting. Every program knows the settings of all programs.
func (p *problems) addUnknown() {
	known := map[string]bool{}
	for _, s := range slices.Concat(WorkerSettings(), SenderSettings(), GatewaySettings()) {
		known[s.Name] = true
		if s.File {
			known[fileName(s.Name)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.vars)) {
		if !strings.HasPrefix(name, prefix) || known[name] || slices.Contains(foreign, name) || isServiceLink(name, p.vars[name]) {
			continue
		}
		hint := "unset it"
		if now := renamed[name]; now != "" {
			hint = "it is called " + now + " now"
		} else if near := nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			hint = "did you mean " + near + "?"
		}
		if name != printable.Line(name) {
			name = strconv.Quote(name)
		}
		p.list = append(p.list, fmt.Errorf("%w %s is unknown: %s", ErrInvalid, name, hint))
	}
}

// nearest returns the candidate with the fewest typing errors, or "" if all have too many.
func nearest(name string, candidates []string) string {
	best, least := "", 1+len(strings.TrimPrefix(name, prefix))/3
	for _, c := range candidates {
		if d := distance(name, c); d <= least {
			best, least = c, d-1
		}
	}
	return best
}

// distance is the number of characters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// Kubernetes sets variables for every service of a namespace in each of its containers. Their
// names begin with the service's: those of a service called turnstile or turnstile-redis have our
// prefix. Their endings distinguish them from misspelt settings. A setting could also end in
// _PORT, so there the value decides, too.
var (
	serviceLink  = regexp.MustCompile(`^TURNSTILE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort  = regexp.MustCompile(`^TURNSTILE_([A-Z0-9_]+_)?PORT$`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isServiceLink reports whether Kubernetes set a variable, and not a user.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || servicePort.MatchString(name) && serviceValue.MatchString(value)
}

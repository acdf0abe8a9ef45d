package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"turnstile/internal/text/pattern"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// Permission is a permission of a token.
type Permission string

// The permissions.
const (
	Send    Permission = "send"    // messages, and decisions on questions
	Read    Permission = "read"    // messages, events, transcripts
	Control Permission = "control" // stop, retry, undo and the other commands of a session
	Operate Permission = "operate" // forget sessions, dead letters; includes watch
	Watch   Permission = "watch"   // metrics and the load
	Agent   Permission = "agent"   // name an agent, with send in a message, with control for a new transcript

	// Instruct is, with send, to bring the agent's model instructions, tools, history and settings, where the
	// agent takes them.
	Instruct Permission = "instruct"
)

// Token has the permissions of a secret's bearer. The zero value has none.
type Token struct {
	// Name is the sender of messages. It is in the log.
	Name string

	sum      [sha256.Size]byte // of the secret
	sessions []string          // patterns of session keys; * matches any characters
	prefix   string            // of the sessions that it creates
	may      []Permission
}

// Sees reports whether a session exists for the token.
func (t Token) Sees(sessionKey string) bool {
	return slices.ContainsFunc(t.sessions, func(p string) bool { return pattern.Fits(p, sessionKey) })
}

// May reports whether the token has a permission.
func (t Token) May(p Permission) bool {
	return slices.Contains(t.may, p) || p == Watch && slices.Contains(t.may, Operate)
}

// mayName fails unless the token may name this agent. "" names none.
func (t Token) mayName(agent string) error {
	if agent != "" && !t.May(Agent) {
		return Fail(Forbidden, `The token %s may not name an agent: its "may" has no agent.`, t.Name)
	}
	return nil
}

// Sender is the sender of a message: the token's name, and the user that the request names.
func (t Token) Sender(user string) string {
	if user == "" {
		return t.Name
	}
	return t.Name + "/" + user
}

// told returns the outcome that the token may know: details are for operators.
func (t Token) told(o session.Outcome) *session.Outcome {
	if !t.May(Operate) {
		o.Detail = ""
	}
	return &o
}

// ended is told for requests that do not need read. A token without read learns only the status.
func (t Token) ended(o session.Outcome) *session.Outcome {
	if !t.May(Read) {
		return &session.Outcome{Session: o.Session, ID: o.ID, Status: o.Status}
	}
	return t.told(o)
}

// everybody is the token of requests to a gateway without tokens.
var everybody = Token{Name: "local", sessions: []string{"*"}, may: []Permission{Send, Read, Control, Operate, Agent, Instruct}}

// published are the hashes of secrets that no token may have: the empty one, and the examples of this
// documentation and of its earlier versions.
var published = [][sha256.Size]byte{sha256.Sum256(nil), sha256.Sum256([]byte("foo")), sha256.Sum256([]byte("chat-secret"))}

// Tokens are the tokens of a file. They are safe for concurrent use.
type Tokens struct {
	path string
	list atomic.Pointer[[]Token]
}

// entry is a token in the file.
type entry struct {
	Name     string       `json:"name"`
	SHA256   string       `json:"sha256"`
	Sessions []string     `json:"sessions"`
	New      string       `json:"new"`
	May      []Permission `json:"may"`
}

// LoadTokens reads a file of tokens.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.Reload()
}

// OneToken returns tokens with a single one, which may do everything.
func OneToken(name, secret string) *Tokens {
	one := everybody
	one.Name, one.sum = name, sha256.Sum256([]byte(secret))
	t := &Tokens{}
	t.list.Store(&[]Token{one})
	return t
}

// Reload reads the file again. After an error the tokens are the same as before.
func (t *Tokens) Reload() error {
	if t.path == "" {
		return nil
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("read tokens: %w", err)
	}
	list, err := parseTokens(data)
	if err != nil {
		return fmt.Errorf("read tokens from %s: %w", t.path, err)
	}
	t.list.Store(&list)
	return nil
}

func parseTokens(data []byte) ([]Token, error) {
	var entries []entry
	if err := strictjson.DecodeNamed(data, &entries); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("it has no token: nobody could use the gateway")
	}
	var list []Token
	var problems []error
	for i, e := range entries {
		token, err := e.token()
		if err == nil && slices.ContainsFunc(list, func(other Token) bool { return other.Name == e.Name || other.sum == token.sum }) {
			err = errors.New("an earlier token has the same name or secret")
		}
		if err != nil {
			name := e.Name
			if session.ValidateID(name) != nil {
				name = fmt.Sprintf("%.100q", name)
			}
			problems = append(problems, fmt.Errorf("token %d (%s): %w", i+1, name, err))
		}
		list = append(list, token)
	}
	return list, errors.Join(problems...)
}

func (e entry) token() (Token, error) {
	t := Token{Name: e.Name, sessions: e.Sessions, prefix: e.New, may: e.May}
	if err := session.ValidateID(e.Name); err != nil {
		return t, fmt.Errorf("name: %w", err)
	}
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != len(t.sum) {
		return t, errors.New("sha256 is not 64 hex digits: the SHA-256 of the secret")
	}
	if copy(t.sum[:], sum); slices.Contains(published, t.sum) {
		return t, errors.New("sha256 is of a secret that everybody knows: make one by: openssl rand -hex 32")
	}
	if len(e.Sessions) == 0 {
		return t, errors.New(`sessions is empty: list patterns such as "web:*"`)
	}
	for _, pattern := range e.Sessions {
		// Apart from its stars, a pattern has the characters of keys.
		if err := session.ValidateKey("x" + strings.ReplaceAll(pattern, "*", "")); err != nil || pattern == "" {
			return t, fmt.Errorf("pattern %.100q: use the characters of session keys, and * for any", pattern)
		}
	}
	if e.New != "" {
		if err := session.ValidateKey(e.New); err != nil {
			return t, fmt.Errorf("new: %w", err)
		}
		if !t.Sees(e.New + "0") {
			return t, fmt.Errorf("new: no pattern of sessions matches %s*", e.New)
		}
	}
	if len(e.May) == 0 {
		return t, errors.New("may is empty: list some of send, read, control, operate, watch, agent, instruct")
	}
	for _, p := range e.May {
		if !everybody.May(p) {
			return t, fmt.Errorf("may: %.100q is unknown: use send, read, control, operate, watch, agent or instruct", p)
		}
	}
	return t, nil
}

// Names are the tokens' names.
func (t *Tokens) Names() (names []string) {
	for _, token := range *t.list.Load() {
		names = append(names, token.Name)
	}
	return names
}

// find returns the token with this secret. Its time does not depend on the secrets.
func (t *Tokens) find(secret string) (found Token, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, token := range *t.list.Load() {
		if subtle.ConstantTimeCompare(token.sum[:], sum[:]) == 1 {
			found, ok = token, true
		}
	}
	return found, ok
}

// named returns the token with this name.
func (t *Tokens) named(name string) (Token, bool) {
	for _, token := range *t.list.Load() {
		if token.Name == name {
			return token, true
		}
	}
	return Token{}, false
}

// authenticate returns the token of a request.
func (g *Gateway) authenticate(route Route, r *Request) (Token, error) {
	if g.config.Tokens == nil {
		return g.anyone()
	}
	header := r.Header.Get("Authorization")
	if header == "" && route.Ticket {
		if r.URL.Query().Has("ticket") {
			return g.redeem(r)
		}
		if token, ok := g.ofCookie(r.Request); ok {
			return token, nil
		}
	}
	scheme, secret, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Token{}, Fail(Unauthorized, "Send the header Authorization: Bearer TOKEN.")
	}
	token, ok := g.config.Tokens.find(strings.TrimSpace(secret))
	return g.guessed(r, token, ok)
}

// guessed bounds how often an address may send unknown tokens. Until then known tokens are refused
// too, since otherwise guesses could continue. They are not refused from a private address: it may be
// a proxy, and one of its clients must not lock out the others.
func (g *Gateway) guessed(r *Request, token Token, known bool) (Token, error) {
	from := addressOf(r.Request)
	var wait time.Duration
	switch ip := from.Addr(); {
	case !known:
		_, wait = g.guesses.begin(from)
	case ip.IsValid() && !ip.IsPrivate() && !ip.IsLoopback():
		wait = g.guesses.wait(from)
	}
	if wait > 0 {
		p := Fail(RateLimited, "Too many unknown tokens came from this address.")
		p.retryAfter = wait
		return Token{}, p
	}
	if !known {
		g.log.Warn("a request had an unknown token", "route", r.route.Pattern, "address", r.RemoteAddr, "request_id", r.ID)
		return Token{}, Fail(Unauthorized, "The token is unknown.")
	}
	return token, nil
}

// load is the work for an agent, or for all, and who can do it.
type load struct {
	Slots   int   `json:"slots"`
	Running int64 `json:"running"`
	Waiting int64 `json:"waiting"`
	Wanted  int64 `json:"wanted_slots"`
}

func loadOf(l admin.Load) load { return load{l.Slots, l.Running, l.Waiting, l.Running + l.Waiting} }

// getScale is for autoscalers, which read one number from a JSON document.
func (g *Gateway) getScale(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery(); err != nil {
		return err
	}
	if !r.Token.SeesAll() {
		return Fail(Forbidden, `The token %s may not read the load: it counts all sessions, and its "sessions" has no "*".`, r.Token.Name)
	}
	s, err := g.deps.Admin.Scale(r.Work())
	if err != nil {
		return err
	}
	agents := map[string]load{}
	for name, l := range s.Agents {
		agents[name] = loadOf(l)
	}
	return Respond(w, http.StatusOK, struct {
		load
		Oldest float64         `json:"oldest_wait_seconds"`
		Agents map[string]load `json:"agents"`
	}{loadOf(s.Load), s.Oldest.Seconds(), agents})
}

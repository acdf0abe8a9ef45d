package outbox

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
)

// defaultMaxAge is how long a record is tried.
const defaultMaxAge = 72 * time.Hour

// maxSecrets allows a new secret and the one that it replaces.
const maxSecrets = 2

// The length of a key that Standard Webhooks asks for, in bytes.
const minKeyLen, maxKeyLen = 24, 64

// secretPrefix begins every secret of Standard Webhooks.
const secretPrefix = "whsec_"

// Destination is a receiver of deliveries.
type Destination struct {
	Route
	URL     string
	MaxAge  time.Duration // how long a record is tried
	Private bool          // it may have a private address
	Detail  bool          // it gets the details of failures, which are for operators

	signers []*standardwebhooks.Webhook
}

// Destinations are the receivers that a deliverer knows, in the order of their file.
type Destinations struct {
	list   []*Destination
	byName map[string]*Destination
}

// Names returns the destinations' names.
func (d *Destinations) Names() []string {
	names := make([]string, len(d.list))
	for i, one := range d.list {
		names[i] = one.Name
	}
	return names
}

// Named returns the destination of that name, nil if there is none.
func (d *Destinations) Named(name string) *Destination { return d.byName[name] }

// Routes returns the destinations' routes.
func (d *Destinations) Routes() Routes {
	all := make(Routes, len(d.list))
	for i, one := range d.list {
		all[i] = one.Route
	}
	return all
}

// Host returns the host of the destination's address. Its path may have a secret.
func (d *Destination) Host() string {
	u, err := url.Parse(d.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// fits reports whether a session's key fits one of the patterns.
func fits(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, key)
		return ok && err == nil
	})
}

// entry is a destination in the file.
type entry struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	Secrets  []string `json:"secrets"`
	Sessions []string `json:"sessions"`
	From     []string `json:"from"`
	MaxAge   string   `json:"max_age"`
	Private  bool     `json:"private"`
	Detail   bool     `json:"detail"`
}

// ParseDestinations reads the text of a destinations file. The error has one line for each problem. It
// never contains a secret.
func ParseDestinations(text []byte) (*Destinations, error) {
	var entries []entry
	if err := strictjson.Decode(text, &entries); err != nil {
		return nil, fmt.Errorf("%w: write a list of {\"name\", \"url\", \"secrets\"}; see docs/webhooks.md", err)
	}
	all := &Destinations{byName: map[string]*Destination{}}
	var problems []error
	for i, e := range entries {
		one, errs := e.destination()
		if all.byName[e.Name] != nil {
			errs = append(errs, errors.New("is there twice: give each destination a name of its own"))
		}
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("destination %d (%.100q) %w", i+1, e.Name, err))
		}
		all.list = append(all.list, one)
		all.byName[e.Name] = one
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return all, nil
}

// destination converts the entry. The errors' texts continue a sentence that begins with the
// destination.
func (e entry) destination() (*Destination, []error) {
	d := &Destination{Route: Route{e.Name, e.Sessions, e.From}, URL: e.URL, MaxAge: defaultMaxAge, Private: e.Private, Detail: e.Detail}
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if wire.ValidateDestination(e.Name) != nil {
		add("has no usable name: use 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit")
	}
	if problem := judgeURL(e.URL, e.Private); problem != "" {
		add("%s", problem)
	}
	for _, pattern := range slices.Concat(e.Sessions, e.From) {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "/") {
			add("has the pattern %.100q, which fits no session: use the characters of a session's key, and * ? [a-z]", pattern)
		}
	}
	if e.MaxAge != "" {
		age, err := wire.ParseDuration(e.MaxAge)
		if err != nil || age < time.Minute {
			add("has max_age %.100q: write a duration of at least 1m, such as 72h", e.MaxAge)
		}
		d.MaxAge = age
	}
	switch n := len(e.Secrets); {
	case n == 0:
		add("has no secrets: add one, made by: echo whsec_$(openssl rand -base64 32)")
	case n > maxSecrets:
		add("has %d secrets: keep the new one and the one that it replaces", n)
	}
	for i, secret := range e.Secrets {
		signer, err := newSigner(secret)
		if err != nil {
			add("has a secret %d that cannot be used: make one by: echo whsec_$(openssl rand -base64 32)", i+1)
			continue
		}
		d.signers = append(d.signers, signer)
	}
	return d, errs
}

// judgeURL returns the problem of a destination's address, or "".
func judgeURL(text string, private bool) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "has no usable url: write it as https://HOST/PATH"
	case u.User != nil:
		return "has a password in its url: take it out, deliveries are signed"
	case u.Fragment != "":
		return "has a fragment in its url: take out what follows the #"
	case u.Scheme == "http" && !private:
		return "has an http:// url: use https://, or set private to true for a receiver in your own network"
	}
	return ""
}

// newSigner is stricter than the library, which accepts secrets without prefix and of any length.
func newSigner(secret string) (*standardwebhooks.Webhook, error) {
	key, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, errors.New("no " + secretPrefix)
	}
	// The length of base64 tells that of the key, with up to two bytes of padding.
	if n := len(key) / 4 * 3; n < minKeyLen || n-2 > maxKeyLen {
		return nil, errors.New("length")
	}
	return standardwebhooks.NewWebhook(secret)
}

package redisconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ErrURL is wrapped by every error about a malformed Redis URL.
var ErrURL = errors.New("malformed Redis URL")

const (
	schemePlain    = "redis"
	schemeTLS      = "rediss"
	schemeSocket   = "redis-socket"
	schemeSentinel = "redis-sentinel"
	schemeCluster  = "redis-cluster"

	defaultPort         = "6379"
	defaultSentinelPort = "26379"
)

// ValidateURL reports whether Open accepts the URL and the files that it names. An error wraps
// ErrURL.
func ValidateURL(url string) error {
	_, err := read(url)
	return err
}

// target is a parsed URL.
type target struct {
	scheme         string
	user, password string
	addrs          []string // host:port, or the socket's path
	db             int
	master         string
	sentinelUser   string
	sentinelPass   string
	tls            bool
	files          tlsFiles
	config         *tls.Config // set by read; nil without TLS
}

// read parses a URL and reads the files that it names.
func read(raw string) (target, error) {
	t, err := parse(raw)
	if err == nil && t.tls {
		t.config, err = t.files.config()
	}
	return t, err
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrURL, fmt.Sprintf(format, args...))
}

// parse does not use net/url, which rejects lists of hosts, and repeats the URL with its password
// in errors.
func parse(raw string) (target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	t := target{scheme: scheme}
	switch {
	case raw == "":
		return t, malformed("it is empty; write it as redis://HOST:PORT/DB")
	case !ok:
		return t, malformed("it has no scheme; write it as redis://HOST:PORT/DB")
	}
	var params []string
	switch scheme {
	case schemePlain, schemeSocket:
		params = []string{"db"}
	case schemeTLS:
		params = append([]string{"db"}, tlsParameters...)
	case schemeSentinel:
		params = append([]string{"master", "db", "tls", "sentinel_username", "sentinel_password"}, tlsParameters...)
	case schemeCluster:
		params = append([]string{"tls"}, tlsParameters...)
	default:
		return t, malformed("its scheme is unknown; use redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://")
	}

	authority, path, query := split(rest)
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if err := t.userinfo(authority[:at]); err != nil {
			return t, err
		}
		authority = authority[at+1:]
	} else if scheme != schemeSocket && strings.Contains(path+query, "@") {
		return t, malformed("the user or password has one of / ? # in it; write them as %%2F %%3F %%23")
	}
	if strings.Contains(path+query, "#") {
		return t, malformed("it has a # in it; write it as %%23")
	}
	if err := t.hosts(authority, path); err != nil {
		return t, err
	}
	if err := t.database(path); err != nil {
		return t, err
	}
	if err := t.parameters(query, params); err != nil {
		return t, err
	}
	if scheme == schemeSentinel && t.master == "" {
		return t, malformed("the master's name is missing; add ?master=NAME")
	}
	t.tls = t.tls || scheme == schemeTLS
	return t, t.checkTLS()
}

// split splits the URL after its scheme into the part before the path, the path with its slash, and
// the query without its question mark.
func split(rest string) (authority, path, query string) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		return rest, "", ""
	}
	authority, rest = rest[:end], rest[end:]
	path, query, _ = strings.Cut(rest, "?")
	return authority, path, query
}

func (t *target) userinfo(info string) error {
	user, password, _ := strings.Cut(info, ":")
	var err error
	if t.user, err = url.PathUnescape(user); err == nil {
		t.password, err = url.PathUnescape(password)
	}
	if err != nil {
		return malformed("the user or password has a %% that begins no percent-encoding; write it as %%25")
	}
	if t.user != "" && t.password == "" {
		return malformed("it has a user but no password; write it as %s://USER:PASSWORD@..., or %[1]s://:PASSWORD@...", t.scheme)
	}
	return nil
}

func (t *target) hosts(authority, path string) error {
	if t.scheme == schemeSocket {
		socket, err := url.PathUnescape(path)
		if authority != "" || err != nil || len(socket) < 2 {
			return malformed("the socket's path must be absolute; write it as redis-socket:///run/redis.sock?db=0")
		}
		t.addrs = []string{socket}
		return nil
	}
	several := t.scheme == schemeSentinel || t.scheme == schemeCluster
	port := defaultPort
	if t.scheme == schemeSentinel {
		port = defaultSentinelPort
	}
	for host := range strings.SplitSeq(authority, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return err
		}
		t.addrs = append(t.addrs, addr)
	}
	if len(t.addrs) > 1 && !several {
		return malformed("%s:// takes one host; for several use redis-sentinel:// or redis-cluster://", t.scheme)
	}
	return nil
}

// hostPort completes "host", "host:port", "[v6]" and "[v6]:port".
func hostPort(s, defaultPort string) (string, error) {
	host, port := s, defaultPort
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return "", malformed("a host has more than one colon; an IPv6 address goes into brackets, as in [::1]:6379")
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n[]") {
		return "", malformed("a host is missing or not a host's name; write HOST:PORT")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", malformed("a port is not a number from 1 to 65535; write HOST:PORT")
	}
	return net.JoinHostPort(host, port), nil
}

func (t *target) database(path string) error {
	if t.scheme == schemeSocket || path == "" || path == "/" {
		return nil
	}
	if t.scheme == schemeCluster {
		if path == "/0" {
			return nil
		}
		return malformed("a cluster has no numbered databases; leave out what follows the hosts")
	}
	return t.setDB(path[1:])
}

func (t *target) setDB(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return malformed("the database is not a number from 0; write it as /0 at the end")
	}
	t.db = n
	return nil
}

func (t *target) parameters(query string, known []string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return malformed("what follows the ? cannot be read; write it as ?NAME=VALUE&NAME=VALUE")
	}
	left := len(values)
	for _, name := range known {
		list, ok := values[name]
		if !ok {
			continue
		}
		left--
		if len(list) > 1 {
			return malformed("%s= is given twice", name)
		}
		switch v := list[0]; name {
		case "db":
			if err := t.setDB(v); err != nil {
				return err
			}
		case "master":
			t.master = v
		case "sentinel_username":
			t.sentinelUser = v
		case "sentinel_password":
			t.sentinelPass = v
		case "tls":
			if t.tls, err = strconv.ParseBool(v); err != nil {
				return malformed("tls= is neither true nor false")
			}
		default:
			if err := t.files.set(name, v); err != nil {
				return err
			}
		}
	}
	if left > 0 && t.scheme == schemePlain && slices.ContainsFunc(tlsParameters, values.Has) {
		return malformed("it names certificates but no TLS; write it as rediss://")
	}
	if left > 0 {
		return malformed("it has a parameter that %s:// does not know; known are: %s", t.scheme, strings.Join(known, ", "))
	}
	return nil
}

// HasPassword reports whether a URL has a password in it. It returns true for a malformed one,
// any part of which may be a password.
func HasPassword(raw string) bool {
	t, err := parse(raw)
	return err != nil || t.password != "" || t.sentinelPass != ""
}

// Redacted returns the URL with its passwords hidden, fit for a log. Of a malformed URL it keeps
// only the scheme, because any other part may be the password.
func Redacted(raw string) string {
	t, err := parse(raw)
	if err != nil {
		switch t.scheme {
		case schemePlain, schemeTLS, schemeSocket, schemeSentinel, schemeCluster:
			return t.scheme + "://(malformed)"
		}
		return "(malformed)"
	}
	var b strings.Builder
	b.WriteString(t.scheme + "://")
	if t.password != "" {
		b.WriteString(url.PathEscape(t.user) + ":***@")
	}
	b.WriteString(strings.Join(t.addrs, ","))
	query := url.Values{}
	switch t.scheme {
	case schemePlain, schemeTLS, schemeSentinel:
		b.WriteString("/" + strconv.Itoa(t.db))
	case schemeSocket:
		query.Set("db", strconv.Itoa(t.db))
	}
	if t.master != "" {
		query.Set("master", t.master)
	}
	if t.tls && t.scheme != schemeTLS {
		query.Set("tls", "true")
	}
	t.files.addTo(query)
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

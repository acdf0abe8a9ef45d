package redisconn

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]target{
		"redis://localhost":                    {scheme: "redis", addrs: []string{"localhost:6379"}},
		"redis://localhost:7777/":              {scheme: "redis", addrs: []string{"localhost:7777"}},
		"redis://[::1]/3":                      {scheme: "redis", addrs: []string{"[::1]:6379"}, db: 3},
		"redis://[::1]:1?db=4":                 {scheme: "redis", addrs: []string{"[::1]:1"}, db: 4},
		"redis://:p%40ss%2F@h/1":               {scheme: "redis", password: "p@ss/", addrs: []string{"h:6379"}, db: 1},
		"redis://u:p:q@r@h":                    {scheme: "redis", user: "u", password: "p:q@r", addrs: []string{"h:6379"}},
		"rediss://u:p@h:1/2":                   {scheme: "rediss", user: "u", password: "p", addrs: []string{"h:1"}, db: 2, tls: true},
		"redis-socket:///run/r.sock":           {scheme: "redis-socket", addrs: []string{"/run/r.sock"}},
		"redis-socket://:p@/run/a@b.sock?db=5": {scheme: "redis-socket", password: "p", addrs: []string{"/run/a@b.sock"}, db: 5},
		"redis-sentinel://a,b:1,[::1]/6?master=m&sentinel_username=u&sentinel_password=s&tls=true": {
			scheme: "redis-sentinel", addrs: []string{"a:26379", "b:1", "[::1]:26379"}, db: 6, master: "m",
			sentinelUser: "u", sentinelPass: "s", tls: true,
		},
		"redis-sentinel://:p@a?master=m&db=2": {scheme: "redis-sentinel", password: "p", addrs: []string{"a:26379"}, db: 2, master: "m"},
		"redis-cluster://u:p@a:1,b:2?tls=1":   {scheme: "redis-cluster", user: "u", password: "p", addrs: []string{"a:1", "b:2"}, tls: true},
		"redis-cluster://a/0":                 {scheme: "redis-cluster", addrs: []string{"a:6379"}},
	} {
		got, err := parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", raw, got, want)
		}
	}
}

func TestOpenRefusesMalformed(t *testing.T) {
	t.Parallel()
	// Each has the password "hunter2", which no error may repeat.
	for raw, hint := range map[string]string{
		"":                                        "it is empty",
		"hunter2":                                 "no scheme",
		"hunter2@h:6379":                          "no scheme",
		"http://:hunter2@h":                       "unknown",
		"hunter2://h":                             "unknown",
		"redis://:hunter2@":                       "host is missing",
		"redis://:hunter2":                        "host is missing",
		"redis://h:hunter2":                       "port",
		"redis://:hunter2@h:0":                    "port",
		"redis://:hunter2@h:65536":                "port",
		"redis://:hunter2@h:6379/x":               "database",
		"redis://:hunter2@h/-1":                   "database",
		"redis://h/hunter2":                       "database",
		"redis://:hun/ter2@h":                     "%2F",
		"redis://:hunter2/x@h":                    "%2F",
		"redis://:hunter2#x@h":                    "%23",
		"redis://:hunter2?x@h":                    "%3F",
		"redis://:hunter2%zz@h":                   "%25",
		"redis://hunter2@h":                       "no password",
		"redis://:hunter2@::1":                    "brackets",
		"redis://:hunter2@a,b":                    "one host",
		"redis://:hunter2@a?hunter2=1":            "does not know; known are: db",
		"redis://:hunter2@a?db=1&db=2":            "twice",
		"redis://:hunter2@a?db=%zz":               "cannot be read",
		"redis://:hunter2@a#hunter2":              "%23",
		"redis://:hunter2@a b":                    "host",
		"redis-socket://hunter2/x":                "absolute",
		"redis-socket://:hunter2@":                "absolute",
		"redis-socket:///x?db=hunter2":            "database",
		"redis-sentinel://:hunter2@a":             "?master=NAME",
		"redis-sentinel://:hunter2@a,,b?master=m": "host is missing",
		"redis-cluster://:hunter2@a/1":            "no numbered databases",
		"redis-cluster://:hunter2@a?tls=hunter2":  "neither true nor false",
	} {
		client, err := Open(raw)
		if err == nil || client != nil {
			t.Errorf("%s: opened", raw)
			continue
		}
		text := Explain(err)
		if !errors.Is(err, ErrURL) || !strings.Contains(text, hint) || strings.Contains(text, "\n") {
			t.Errorf("%s: %q; want one line with %q", raw, text, hint)
		}
		for _, out := range []string{err.Error(), text, Redacted(raw)} {
			if strings.Contains(out, "hunter2") || strings.Contains(out, "ter2") {
				t.Errorf("%s: the password is in %q", raw, out)
			}
		}
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis://h":                           "redis://h:6379/0",
		"redis://u:secret@h:1/2":              "redis://u:***@h:1/2",
		"rediss://:secret@h?db=3":             "rediss://:***@h:6379/3",
		"redis-socket://:secret@/r.sock?db=1": "redis-socket://:***@/r.sock?db=1",
		"redis-sentinel://a,b?master=m&sentinel_password=secret": "redis-sentinel://a:26379,b:26379/0?master=m",
		"redis-cluster://u:secret@a:1,b:2?tls=true":              "redis-cluster://u:***@a:1,b:2?tls=true",
		"redis://secret":   "redis://secret:6379/0", // the host
		"redis://h:secret": "redis://(malformed)",
		"secret":           "(malformed)",
	} {
		if got := Redacted(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestOpenMakesTheRightClient(t *testing.T) {
	t.Parallel()
	for raw, check := range map[string]func(redis.UniversalClient) bool{
		"redis://h": func(c redis.UniversalClient) bool {
			o := c.(*redis.Client).Options()
			return o.TLSConfig == nil && o.PoolSize == 7 && o.ClientName == "turnstile" && o.ContextTimeoutEnabled
		},
		"rediss://h": func(c redis.UniversalClient) bool {
			o := c.(*redis.Client).Options()
			return o.TLSConfig != nil && !o.TLSConfig.InsecureSkipVerify
		},
		"redis-socket:///x": func(c redis.UniversalClient) bool {
			return c.(*redis.Client).Options().Network == "unix"
		},
		"redis-sentinel://a?master=m": func(c redis.UniversalClient) bool {
			_, ok := c.(*redis.Client)
			return ok
		},
		"redis-cluster://a?tls=true": func(c redis.UniversalClient) bool {
			o := c.(*redis.ClusterClient).Options()
			return o.TLSConfig != nil && o.PoolSize == 7
		},
	} {
		client, err := Open(raw, WithPoolSize(7), WithClientName("turnstile"))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if !check(client) {
			t.Errorf("%s: wrong client %T", raw, client)
		}
		_ = client.Close()
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"redis://u:p@h:1/2", "redis-socket:///x?db=1", "redis-sentinel://a,b?master=m", "redis-cluster://[::1]:1,b?tls=true", "redis://%zz@",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parse(raw)
		if err != nil {
			if !errors.Is(err, ErrURL) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if strings.Contains(raw, "***") {
			return // it may be a host, which must not be replaced below
		}
		// The redacted URL leads to the same servers.
		shown := strings.ReplaceAll(Redacted(raw), "***", "x")
		again, err := parse(shown)
		if got.scheme == schemeSocket {
			return // a socket's path is not escaped
		}
		if err != nil || !reflect.DeepEqual(again.addrs, got.addrs) || again.db != got.db || again.master != got.master || again.tls != got.tls {
			t.Fatalf("%q is shown as %q: %+v, %+v, %v", raw, shown, got, again, err)
		}
	})
}

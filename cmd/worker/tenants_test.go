package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Each mistake in a table is a line, with exit code 2, and nothing is stored.
func TestWrongTenants(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	environ := []string{"REDIS_URL=" + url}
	file := filepath.Join(t.TempDir(), "tenants.json")
	for text, want := range map[string]string{
		`{"tenants": {"a": {"sessions": ["x:*"]}, "b": {"sessions": ["x:*"]}}}`: `tenant "b": sessions: "x:*" belongs to tenant "a": give it to one of them`,
		`{"tenants": {"a": {"sessions": ["x:*"], "weight": 0}}}`:                `tenant "a": weight is 0: from 1 to 1000 are allowed`,
		`{"tenants": {"a": {"sessions": ["x:*"], "weight": 1.5}}}`:              `cannot unmarshal number 1.5`,
		`{"tenants": {"a": {"running": 3}}}`:                                    `tenant "a": sessions is missing: list patterns such as "acme:*"`,
		`{"tenants": {"*": {"sessions": ["x:*"]}}}`:                             `tenant "*": sessions: this entry is for the sessions of no other one: leave them out, or give it a name`,
		`{"tenants": {"*": {"running": 0}}}`:                                    `tenant "*": running is 0: at least 1 is allowed, and any number if it is left out`,
		`{"tenants": {"a": {"sessions": ["x:*"], "wieght": 2}}}`:                `wieght`,
		`{"agents": {"a b": {"running": 1}}}`:                                   `a name has 1 to 64 letters`,
		`{"tenants": []}`:                                                       `tenants`,
		``:                                                                      `EOF`,
	} {
		expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
		for _, command := range []string{"check", "apply"} {
			r := call(t, environ, "tenants", command, file).want(t, exitUsage)
			if !strings.HasPrefix(r.err, "worker: setting tenants: ") || !strings.Contains(r.err, want) || strings.Count(r.err, "\n") != 1 {
				t.Errorf("%s %s: %s", command, text, r.err)
			}
		}
	}
	call(t, environ, "tenants", "apply", "/gone").want(t, exitUsage)
	r := call(t, environ, "tenants").want(t, exitOK)
	expect.Equal(t, "no table", r.out, "There are no tenants: sessions run first come, first served. Apply a table with: worker tenants apply FILE\n")
}

// A table is applied, listed and removed.
func TestTenantsCommand(t *testing.T) {
	t.Parallel()
	environ := []string{"REDIS_URL=" + redistest.URL(t)}
	file := filepath.Join(t.TempDir(), "tenants.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"tenants": {"acme": {"sessions": ["acme:*"], "weight": 3}, "*": {"running": 2}}, "agents": {"support": {"running": 5}}}`), 0o600))
	expect.Equal(t, "checked", call(t, nil, "tenants", "check", file).want(t, exitOK).out, file+" is right.\n")
	call(t, environ, "tenants", "apply", file).want(t, exitOK)
	expect.Equal(t, "the list", call(t, environ, "tenants").want(t, exitOK).out, `KIND    NAME     WEIGHT  CAP  RUNNING  HELD
agent   support  -       5    0        0
tenant  *        1       2    0        0
tenant  acme     3       -    0        0
`)
	expect.Equal(t, "in JSON", strings.Count(call(t, environ, "tenants", "--json").want(t, exitOK).out, `"kind"`), 3)
	call(t, environ, "tenants", "remove").want(t, exitOK)
	expect.Equal(t, "in JSON", call(t, environ, "tenants", "--json").want(t, exitOK).out, "[]\n")
}

// A worker of some agents needs no keys of the others, and says which names are no agents.
func TestSomeAgents(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "agents.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"a": {"sessions": ["a:*"], "agent": "echo"}, "b": {"sessions": ["b:*"], "agent": "model", "model": "m", "model_key_env": "NOT_HERE"}}`), 0o600))
	environ := []string{"TURNSTILE_AGENTS_FILE=" + file}
	expect.Equal(t, "its own", call(t, environ, "agents", "check", "--agents", "a").want(t, exitOK).out, file+" is right. Its agents: a, b\n")
	for names, want := range map[string]string{
		"a,c":       `setting TURNSTILE_AGENTS="a,c" has "c", which is no agent of TURNSTILE_AGENTS_FILE: name some of those, or default`,
		"a,default": `setting TURNSTILE_AGENTS="a,default" has default, but TURNSTILE_AGENT is not set: leave it out, or set that`,
		"b":         `agent "b": model_key_env names the variable "NOT_HERE", which is not set`,
	} {
		if r := call(t, environ, "--agents", names).want(t, exitUsage); !strings.Contains(r.err, want) {
			t.Errorf("%s: %s", names, r.err)
		}
	}
}

package command

import (
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// A program gets every variable of its own, except the very ones that its isolation or its agent has chosen, and each
// of those once.
func TestVariablesWithAlmostTheSameName(t *testing.T) {
	HasLauncher.Store(true)
	t.Cleanup(func() { HasLauncher.Store(false) })
	isolator, err := NewIsolator(agent.Isolation{Level: agent.IsolationConfined, Workspace: t.TempDir()})
	expect.OK(t, err)
	bare, err := isolator.Apply(Spec{}, "s")
	expect.OK(t, err)
	chosen := []string{"TOKEN=chosen", "A=chosen"}
	own := slices.Concat(bare.Env, chosen)
	var others []string
	for _, v := range own {
		name, _, _ := strings.Cut(v, "=")
		for _, near := range expect.Near(name) {
			if !slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, near+"=") }) {
				others = append(others, near+"="+name)
			}
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	env := slices.Clone(others)
	for _, v := range own {
		name, _, _ := strings.Cut(v, "=")
		env = append(env, name+"=the worker's")
	}
	spec, err := isolator.Apply(Spec{Argv: []string{"sh"}, Env: env, Chosen: chosen}, "s")
	expect.OK(t, err)
	_, _, got, err := spec.program()
	expect.OK(t, err)
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], LauncherPrefix)
	}
	slices.Sort(got)
	want := slices.Concat(others, own)
	slices.Sort(want)
	expect.List(t, "variables", got, want...)
}

// The worker's environment has only what is selected by its whole name, and nothing of the worker's own settings.
func TestSelectedVariables(t *testing.T) {
	t.Parallel()
	selected, err := NewEnv([]string{"API_KEY", "ALSO_*"})
	expect.OK(t, err)
	names := append([]string{"API_KEY", "ALSO_A"}, slices.DeleteFunc(slices.Clone(basicEnv), func(n string) bool { return strings.HasSuffix(n, "*") })...)
	for _, name := range names {
		for _, near := range append(expect.Near(name), ownPrefix+name) {
			passes := slices.Contains(names, near) || strings.HasPrefix(near, "ALSO_") || strings.HasPrefix(near, "LC_")
			if !selected.passes(name) || selected.passes(near) != passes {
				t.Errorf("%s passes: %v; %s: %v", name, selected.passes(name), near, selected.passes(near))
			}
		}
	}
	apart, err := NewEnv([]string{"MODEL_*", "MODEL_KEY=this agent's", "-MODEL_OTHER"})
	expect.OK(t, err)
	env := apart.ForSession([]string{"MODEL_KEY=the worker's", "MODEL_OTHER=another agent's", "MODEL_NAME=m", "HOME=/h"}, "s")
	expect.List(t, "an agent's own variables", env, "MODEL_NAME=m", "HOME=/h", "MODEL_KEY=this agent's", "TURNSTILE_SESSION=s")
	for _, wrong := range []string{"=x", "A B=x", "REDIS_URL=x", ownPrefix + "X=x", "A=\x00", "A*=x", ""} {
		if _, err := NewEnv([]string{wrong}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	for _, name := range []string{"REDIS_URL", "REDIS_URL_FILE", ownPrefix + "X"} {
		if everything := (Env{prefixes: []string{""}}); everything.passes(name) {
			t.Errorf("%s passes", name)
		}
	}
}

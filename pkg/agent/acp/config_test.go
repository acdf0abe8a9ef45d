package acp

import (
	"errors"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"the command is empty":       {},
		"zero byte":                  {Command: []string{"a", "b\x00"}},
		"unknown permissions":        {Command: []string{"a"}, Permissions: "perhaps"},
		"files and terminals need a": {Command: []string{"a"}, Files: true},
		"need a workspace":           {Command: []string{"a"}, Terminal: true},
		"to start is negative":       {Command: []string{"a"}, Start: -1},
		"REDIS_URL":                  {Command: []string{"a"}, Env: []string{"REDIS_URL"}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	a := newAgent(t, Config{Command: []string{"no-such-program"}, Workspace: "x"})
	if c := a.config; c.Grace != 5*time.Second || c.Start != time.Minute || c.Permissions != AskUser || !filepath.IsAbs(c.Workspace) {
		t.Errorf("%+v", c)
	}
	if err := a.Check(); !errors.Is(err, osexec.ErrNotFound) {
		t.Error(err)
	}
	if err := newAgent(t, Config{Command: []string{"sh"}, Grace: -1}).Check(); err != nil {
		t.Error(err)
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	all := []Config{
		{Command: []string{"a", "b"}}, {Command: []string{"a b"}}, {Command: []string{"a"}}, {Command: []string{"a"}, Env: []string{"X"}},
		{Command: []string{"a"}, Workspace: "/w"}, {Command: []string{"a"}, Workspace: "/w", Files: true},
		{Command: []string{"a"}, Workspace: "/w", Terminal: true}, {Command: []string{"a"}, Permissions: Deny},
		{Command: []string{"a"}, Model: "m"}, {Command: []string{"a"}, Mode: "m"},
	}
	for _, c := range all {
		s := newAgent(t, c).Signature()
		if seen[s] || s != newAgent(t, c).Signature() {
			t.Errorf("%+v: %s", c, s)
		}
		seen[s] = true
	}
}

//go:build linux

package sameuser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Sessions work under any umask, and again after their directories have lost their owner's rights.
func TestUmasks(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"0277", "0777", "0077", "0027", "0000"} {
		t.Run(umask, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			worker := filepath.Join(u.Dir, "worker")
			expect.OK(t, os.WriteFile(worker, []byte("#!/bin/sh\numask "+umask+"\nexec "+workerPath+` "$@"`), 0o755)) //nolint:gosec // a program
			root := filepath.Join(u.Dir, "deep", "root")
			r := rigOf(t, u, worker, "", "TURNSTILE_WORKSPACE_DIR="+root, "TURNSTILE_ISOLATION=wrapper", "TURNSTILE_WRAPPER=env HOME={home}",
				`TURNSTILE_AGENT_COMMAND=sh -c 'for d in . "$HOME"; do echo >"$d/$$" || exit; done; stat -c %a . "$HOME" "$HOME/.." .. ../..'`)
			for range 2 {
				end := r.says("hello", ignore)
				if modes := strings.Join(strings.Fields(end.Reply), " "); end.Status != session.StatusDone || modes != "700 700 700 700 700" {
					t.Errorf("%s (%s): %s", end.Status, end.Why(), modes)
				}
				sessions, err := filepath.Glob(root + "/*")
				if err != nil || len(sessions) != 3 { // and nothing of the check
					t.Fatalf("%v, %v", sessions, err)
				}
				for _, dir := range sessions {
					expect.OK(t, os.Chmod(dir, 0o500))
				}
			}
			u.start(t, worker, []string{"TURNSTILE_AGENT=echo", "TURNSTILE_HTTP_ADDR=127.0.0.1:0"}, "--dev").Output.Await(t, "a redis-server of its own")
		})
	}
}

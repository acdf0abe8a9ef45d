package connections

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnstile/test/redistest"
)

// Other users can read a password in a flag: both programs warn and continue. They do not warn
// about a password in a file or in the environment.
func TestAPasswordInAFlagWarns(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	server := redistest.StartServer(t, "--requirepass", "hunter2")
	secret := "redis://:hunter2@" + server.Addr()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"worker": {"ls"}, "enqueue": {"-s", "s", "hello"}} {
		for what, c := range map[string]struct {
			settings, flags []string
			warns           bool
		}{
			"a flag with a password":    {nil, []string{"--redis", secret}, true},
			"a flag without a password": {nil, []string{"--redis", redistest.URL(t)}, false},
			"the environment":           {[]string{"REDIS_URL=" + secret}, nil, false},
			"a file":                    {[]string{"REDIS_URL_FILE=" + path}, nil, false},
		} {
			r := call(t, c.settings, name, slices.Concat(args, c.flags)...)
			warning := name + ": --redis has a password that other users of this machine can read"
			switch {
			case r.code != exitOK:
				t.Errorf("%s, %s: exit code %d, stderr %q", name, what, r.code, r.err)
			case c.warns && (len(r.lines()) != 1 || !strings.HasPrefix(r.err, warning)):
				t.Errorf("%s, %s: stderr %q", name, what, r.err)
			case !c.warns && r.err != "":
				t.Errorf("%s, %s: it warns: %q", name, what, r.err)
			case strings.Contains(r.err, "hunter2"):
				t.Errorf("%s, %s: it repeats the password: %q", name, what, r.err)
			}
		}
	}
}

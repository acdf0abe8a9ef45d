package workspace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The users of these tests: alice runs the worker, mallory is another user. Neither is in group.
const (
	alice   = 61001
	mallory = 61002
	group   = 62000
)

// shared is a directory on a machine of several users, created by root: below it "tmp" is for
// everybody and sticky, "srv" is alice's.
type shared struct {
	t   *testing.T
	top string
	bin string
}

func newShared(t *testing.T) *shared {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("setpriv"); err != nil {
		missing = "there is no setpriv (util-linux)"
	} else if os.Geteuid() != 0 {
		missing = "only root can become another user"
	}
	switch {
	case missing != "" && os.Getenv("CI") == "true":
		t.Fatal("NOT TESTED: what other users may do: " + missing)
	case missing != "":
		t.Skip("not tested: what other users may do: " + missing)
	}
	s := &shared{t: t, top: t.TempDir()}
	s.must(os.Chmod(filepath.Dir(s.top), 0o755)) // both users must reach it
	self, err := os.Executable()
	s.must(err)
	s.bin = filepath.Join(s.top, "bin")
	// Not by this process: a child that another test starts meanwhile would have the file open
	// for writing.
	s.must(exec.Command("install", "-m", "755", self, s.bin).Run())
	s.mkdir("tmp", 0, 0, os.ModeSticky|0o777)
	s.mkdir("srv", alice, alice, 0o755)
	return s
}

func (s *shared) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shared) path(name string) string { return filepath.Join(s.top, name) }

func (s *shared) mkdir(name string, uid, gid int, mode os.FileMode) {
	s.t.Helper()
	s.must(os.Mkdir(s.path(name), 0o700))
	s.must(os.Chown(s.path(name), uid, gid))
	s.must(os.Chmod(s.path(name), mode))
}

// as runs a command as a user who has one additional group.
func (s *shared) as(uid int, argv ...string) string {
	s.t.Helper()
	id := strconv.Itoa(uid)
	cmd := exec.Command("setpriv", append([]string{"--reuid", id, "--regid", id, "--groups", strconv.Itoa(group), "--"}, argv...)...)
	cmd.Dir = s.top
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%q: %v: %s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// directory returns the report of alice's worker about a session's directory below root.
func (s *shared) directory(root, trusted string) string {
	s.t.Helper()
	return s.as(alice, s.bin, "test-directory", filepath.Join(s.top, root), "demo", trusted)
}

// refused checks that alice's worker refuses the directory, with a reason.
func (s *shared) refused(root, trusted string, want ...string) {
	s.t.Helper()
	said := s.directory(root, trusted)
	if !strings.HasPrefix(said, "refused: could not make the session's directory: "+ErrUntrusted.Error()) {
		s.t.Errorf("%s: %s", root, said)
		return
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			s.t.Errorf("%s: %q does not say %q", root, said, w)
		}
	}
}

// used checks that alice's worker uses the directory below want.
func (s *shared) used(root, trusted, want string) {
	s.t.Helper()
	if got, want := s.directory(root, trusted), filepath.Join(s.top, want, name("demo")); got != want {
		s.t.Errorf("%s: %s, want %s", root, got, want)
	}
}

func TestPreparedByAnotherUser(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	// The root, with a session's directory and a file in it that agents obey.
	s.as(mallory, "sh", "-c", `umask 0; mkdir -p "$1" && echo obey >"$1/CLAUDE.md"`, "sh", s.path("tmp/root/"+name("demo")))
	s.refused("tmp/root", "", s.path("tmp/root")+" belongs to uid 61002, neither to root nor to this process (uid 61001): chown it")
	s.refused("tmp/root/deep/er", "", s.path("tmp/root")+" belongs to uid 61002")

	// A session's directory in a root that everybody may write to and that is sticky.
	s.as(mallory, "sh", "-c", `umask 0; mkdir "$1" && echo obey >"$1/CLAUDE.md"`, "sh", s.path("tmp/"+name("demo")))
	s.refused("tmp", "", name("demo")+" does not belong to this process (uid 61001)")
	s.must(os.RemoveAll(s.path("tmp/" + name("demo"))))
	s.used("tmp", "", "tmp")

	// A link to alice's directory, which could lead elsewhere a moment later.
	s.as(mallory, "ln", "-s", s.path("srv"), s.path("tmp/link"))
	s.refused("tmp/link", "", s.path("tmp/link")+" belongs to uid 61002")

	// alice's link, through a directory of mallory's.
	s.as(alice, "ln", "-s", "../tmp/root/"+name("demo")+"/../../../srv", s.path("srv/through"))
	s.refused("srv/through/x", "", s.path("tmp/root")+" belongs to uid 61002")
	s.as(alice, "mkdir", s.path("srv/real"))
	s.as(alice, "ln", "-s", "../srv/./real", s.path("srv/good"))
	s.must(os.Symlink(s.path("srv")+"/", s.path("tmp/roots")))
	s.used("tmp/roots/good/made", "", "srv/real/made")
	info, err := os.Stat(s.path("srv/real/made"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
}

func TestWritableForOthers(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.mkdir("open", 0, 0, 0o777)
	s.as(alice, "mkdir", "-m", "700", s.path("open/hers"))
	s.refused("open/hers", "", "everybody may write to "+s.path("open")+" (mode 777): chmod o-w it")
	s.mkdir("group", 0, group, 0o770)
	s.must(os.Chown(s.path("group"), 0, alice))
	s.as(alice, "mkdir", "-m", "700", s.path("group/hers"))
	s.refused("group/hers", "", "group 61001 may write to "+s.path("group")+" (mode 770): chmod g-w it, or set TURNSTILE_WORKSPACE_GROUP=61001")
	s.refused("group/hers", "62001", "group 61001 may write")

	// A session's directory that was opened to others, despite the sticky bit.
	s.used("srv", "", "srv")
	for mode, who := range map[os.FileMode]string{0o777: "everybody", os.ModeSticky | 0o777: "everybody", 0o770: "group 61001"} {
		s.must(os.Chmod(s.path("srv/"+name("demo")), mode))
		s.refused("srv", "", who+" may write to "+s.path("srv/"+name("demo")))
	}
	s.must(os.Chmod(s.path("srv/"+name("demo")), 0o755))
	s.used("srv", "", "srv")
}

// An agent may change the mode of the root, and of a directory above it that belongs to its user. The next turn repairs
// that, and so does the next worker.
func TestOpenedByAnAgent(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.used("srv/root", "", "srv/root")
	for _, mode := range []os.FileMode{0o777, 0o770, 0, 0o333, os.ModeSetgid | 0o777} {
		s.must(errors.Join(os.Chmod(s.path("srv/root"), mode), os.Chmod(s.path("srv"), mode)))
		s.used("srv/root", "", "srv/root")
	}
	s.must(os.Chmod(s.path("srv/root"), os.ModeSetgid|0o777))
	s.must(os.Chown(s.path("srv/root"), -1, group))
	s.must(os.Chmod(s.path("srv/root"), os.ModeSetgid|0o777))
	s.used("srv/root", strconv.Itoa(group), "srv/root")
	info, err := os.Lstat(s.path("srv/root"))
	s.must(err)
	if info.Mode() != os.ModeDir|os.ModeSetgid|0o775 {
		t.Errorf("of a trusted group: %v", info.Mode())
	}
}

// A volume as Kubernetes mounts it with an fsGroup: it belongs to root and that group, which may
// write to all of it. An emptyDir is even writable for everybody.
func TestVolumesOfKubernetes(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	trusted := strconv.Itoa(group)
	for name, mode := range map[string]os.FileMode{"claim": 0o775, "empty": 0o777} {
		s.mkdir(name, 0, group, os.ModeSetgid|mode)
		s.refused(name, "", "may write to "+s.path(name))
		s.refused(name, "62001", "may write to "+s.path(name))
		s.used(name, trusted, name)
		s.used(name+"/sub", trusted, name+"/sub")
		// The group of everything in it is set again for the next pod.
		s.must(filepath.WalkDir(s.path(name), func(path string, _ os.DirEntry, err error) error {
			info, err2 := os.Stat(path)
			return errors.Join(err, err2, os.Chown(path, -1, group), os.Chmod(path, info.Mode()|os.ModeSetgid|0o070))
		}))
		s.used(name+"/sub", trusted, name+"/sub")
		s.refused(name+"/sub", "", "may write to ")
	}
	// The group is trusted, but neither everybody nor the directory's creator.
	s.mkdir("plain", 0, group, 0o777)
	s.refused("plain", trusted, "everybody may write to")
	s.mkdir("theirs", mallory, group, os.ModeSetgid|0o775)
	s.refused("theirs", trusted, "belongs to uid 61002")
}

package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/pkg/agent"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "real")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, key := range []string{"", "a", "../a", strings.Repeat("x", 5000), "a\x00b"} {
		for range 2 { // created, and then found
			dir, err := Root{Path: filepath.Join(link, "deep", "er")}.Directory(key)
			if err != nil {
				t.Fatal(err)
			}
			want, err := filepath.EvalSymlinks(filepath.Join(target, "deep", "er"))
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Dir(dir) != want || len(filepath.Base(dir)) != 32 {
				t.Errorf("%.20q: %s, not below %s", key, dir, want)
			}
			if info, err := os.Lstat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			seen[dir] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d directories for 5 sessions", len(seen))
	}
}

func TestRelativeRoot(t *testing.T) {
	t.Chdir(t.TempDir())
	if dir, err := (Root{Path: "below"}).Directory("a"); err != nil || !filepath.IsAbs(dir) {
		t.Errorf("%s, %v", dir, err)
	}
}

// Another file in the directory's place is not used, least of all a link to elsewhere.
func TestOtherFilesInItsPlaceAreRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, err := Root{Path: root}.Directory("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, put := range []func() error{
		func() error { return os.Symlink("/", dir) },
		func() error { return os.Symlink(filepath.Join(root, "nowhere"), dir) },
		func() error { return os.WriteFile(dir, nil, 0o600) },
	} {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if _, err := (Root{Path: root}).Directory("a"); !errors.Is(err, ErrUntrusted) || errors.Is(err, agent.ErrRetryable) || !strings.Contains(err.Error(), "is no directory") {
			t.Error(err)
		}
	}
	if _, err := (Root{Path: dir}).Directory("a"); !errors.Is(err, agent.ErrUnavailable) {
		t.Errorf("below a file: %v", err)
	}
}

// The root is every session's: an error there is no fault of the turn's.
func TestWhoseFaultADirectoryIs(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	file, good := filepath.Join(top, "file"), filepath.Join(top, "good")
	for _, err := range []error{
		os.WriteFile(file, nil, 0o600), os.Mkdir(good, 0o700),
		os.WriteFile(filepath.Join(good, name("a")), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, unavailable := range map[string]bool{file: true, filepath.Join(file, "x"): true, "/proc/none": true, good: false} {
		if _, err := (Root{Path: path}).Directory("a"); err == nil || errors.Is(err, agent.ErrUnavailable) != unavailable {
			t.Errorf("%s: %v, unavailable: want %v", path, err, unavailable)
		}
	}
}

func TestALoopOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		if err := os.Symlink(fmt.Sprint("link", (i+1)%3), filepath.Join(dir, fmt.Sprint("link", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (Root{Path: filepath.Join(dir, "link0")}).Directory("a"); err == nil || !strings.Contains(err.Error(), "more than 40 symbolic links") {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	root := filepath.Join(top, "deep", "er")
	for range 2 { // created, and then found
		if err := (Root{Path: root}).Check(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v, %v", left, err)
		}
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{file, filepath.Join(file, "below"), "/proc/none"} { // root can write everywhere else
		if err := (Root{Path: bad}).Check(); err == nil {
			t.Errorf("%s can be used", bad)
		}
	}
}

// Each agent of a session has other directories beside the session's, and Remove deletes them.
func TestPlace(t *testing.T) {
	t.Parallel()
	root := Root{Path: filepath.Join(t.TempDir(), "root")}
	seen := map[string]bool{}
	for _, agentName := range []string{"one", "two", "one"} {
		p, err := root.Place("s", agentName)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{p.Home, p.Temporary} {
			if info, err := os.Lstat(dir); err != nil || info.Mode() != os.ModeDir|0o700 || filepath.Base(dir) != agentName {
				t.Errorf("%s: %v, %v", dir, info, err)
			}
			seen[dir] = true
		}
		if dir, err := root.Directory("s"); err != nil || dir != p.Directory {
			t.Errorf("%s, %v, want %s", p.Directory, err, dir)
		}
	}
	if len(seen) != 4 {
		t.Errorf("two agents have %d directories", len(seen))
	}
	// A link in the place of one is refused.
	p, err := root.Place("s", "one")
	if err == nil {
		err = errors.Join(os.Remove(p.Home), os.Symlink("/", p.Home))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Place("s", "one"); !errors.Is(err, ErrUntrusted) {
		t.Error(err)
	}
	if _, err := Remove(root.Path, "s"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(root.Path); err != nil || len(left) > 0 {
		t.Errorf("Remove leaves %v, %v", left, err)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	root := filepath.Join(top, "root")
	if path, err := Remove(root, "a"); path != "" || err != nil {
		t.Errorf("no root: %q, %v", path, err)
	}
	precious := filepath.Join(top, "precious")
	other, err := Root{Path: root}.Directory("b")
	if err != nil {
		t.Fatal(err)
	}
	if path, err := Remove(root, "a"); path != "" || err != nil {
		t.Errorf("no directory: %q, %v", path, err)
	}
	dir, err := Root{Path: root}.Directory("a")
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "cache", "deep")
	for _, err := range []error{
		os.WriteFile(precious, []byte("x"), 0o600), os.MkdirAll(cache, 0o700),
		os.WriteFile(filepath.Join(cache, "file"), []byte("x"), 0o400),
		os.Symlink(top, filepath.Join(dir, "up")), os.Symlink(precious, filepath.Join(cache, "precious")),
		os.Chmod(cache, 0o500), os.Chmod(filepath.Dir(cache), 0o000),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	path, err := Remove(root, "a")
	if err != nil || filepath.Base(path) != filepath.Base(dir) {
		t.Fatalf("%q, %v", path, err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	for _, kept := range []string{precious, other} {
		if _, err := os.Lstat(kept); err != nil {
			t.Error(err)
		}
	}
	// A link in its place is removed, not its target.
	if err := os.Symlink(other, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(root, "a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the link is still there: %v", err)
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
}

// An agent may nest directories deeper than the limit of open files, and lock them.
func TestRemoveOfADeepDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, err := Root{Path: top}.Directory("a")
	if err != nil {
		t.Fatal(err)
	}
	at, err := os.OpenRoot(dir)
	for i := 0; i < 2*fewFiles && err == nil; i++ {
		err = at.Mkdir("d", 0o700)
		if below, failed := at.OpenRoot("d"); failed == nil {
			_ = at.Close()
			at = below
		} else {
			err = failed
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = at.Close()
	if err := os.Chmod(filepath.Join(dir, "d", "d"), 0); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, "test-remove", top).CombinedOutput()
	if _, left := os.Lstat(dir); err != nil || !os.IsNotExist(left) {
		t.Errorf("%v: %s; left: %v", err, out, left)
	}
}

// An agent may open its own directory to everybody. If no other user can reach it anyway, turns
// continue to run. Otherwise there would be none in which the agent could close it again.
func TestOpenedByItsAgent(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "root")
	for mode, trusted := range map[os.FileMode]bool{0o700: true, 0o744: true, 0o710: false, 0o701: false, 0o755: false} {
		dir, err := Root{Path: root}.Directory("demo")
		if err == nil {
			err = errors.Join(os.Chmod(dir, 0o777), os.Chmod(root, mode))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err = (Root{Path: root}).Directory("demo"); errors.Is(err, ErrUntrusted) == trusted {
			t.Errorf("below a root of mode %o: %v", mode, err)
		}
		if err := os.Chmod(root, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

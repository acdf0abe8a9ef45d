package acp

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/test/expect"
)

// holes is a file of zeros that counts those that were read.
type holes struct{ left, read int64 }

func (h *holes) Read(p []byte) (int, error) {
	n := min(int64(len(p)), h.left)
	clear(p[:n])
	h.left -= n
	h.read += n
	return int(n), nil
}

// A read bounds the skipped bytes, not only the returned ones: a sparse file of 1 TiB takes no room
// on the disk, and would keep a worker's core busy for minutes.
func TestReadOfASparseFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	expect.OK(t, err)
	defer func() { expect.OK(t, f.Close()) }()
	if err := f.Truncate(1 << 40); err != nil {
		t.Skip("this file system has no files of 1 TiB: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	second, one := 2, 1
	_, err = readFile(ctx, dir, acpsdk.ReadTextFileRequest{Path: "sparse", Line: &second, Limit: &one})
	failed(t, err, false, `"sparse": line 2 is more than 64 MiB into the file`)
	_, err = readFile(ctx, dir, acpsdk.ReadTextFileRequest{Path: "sparse"})
	failed(t, err, false, "read fewer lines at a time")

	const slack = 128 << 10 // of the buffers
	for first, most := range map[int]int64{1: maxFile + slack, 2: maxPassed + slack} {
		h := &holes{left: 1 << 40}
		if _, err := lines(ctx, h, first, 1); err == nil || h.read > most {
			t.Errorf("line %d: read %d bytes, at most %d are allowed: %v", first, h.read, most, err)
		}
	}
	// A line just within the bound is returned.
	h := strings.NewReader(strings.Repeat("x", maxPassed-1) + "\nsecond\nthird")
	if text, err := lines(ctx, h, 2, 1); err != nil || text != "second\n" {
		t.Errorf("%.100q, %v", text, err)
	}
}

// A file with a second hard link may lie outside the directory under that name.
func TestWriteToAHardLink(t *testing.T) {
	t.Parallel()
	a, dir := confined(t)
	outside, in := filepath.Join(filepath.Dir(dir), "outside"), filepath.Join(dir, "in")
	expect.OK(t, os.WriteFile(outside, []byte("precious"), 0o600))
	expect.OK(t, os.Link(outside, in))
	expect.OK(t, os.Symlink("in", filepath.Join(dir, "alias")))
	for _, name := range []string{"in", in, "alias"} {
		got := calls(t, a, fmt.Sprintf(`fs/write_text_file {"path":%q,"content":"new"}`, name))[0]
		if !strings.Contains(got, `"error"`) || !strings.Contains(got, "has another hard link") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "precious" {
		t.Errorf("the file outside is now %q, %v", text, err)
	}
	// Reading is allowed: the agent can read such a file without Turnstile, too.
	if got := calls(t, a, `fs/read_text_file {"path":"in"}`)[0]; !strings.Contains(got, "precious") {
		t.Error(got)
	}
	expect.OK(t, os.Remove(outside))
	if got := calls(t, a, `fs/write_text_file {"path":"in","content":"new"}`)[0]; got != `{"result":{}}` {
		t.Errorf("with one link left: %s", got)
	}
}

// The name in the directory is removed and put back during the check, so the file outside seems to
// have no other name at times.
func TestWriteToAHardLinkThatComesAndGoes(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, outside := filepath.Join(top, "dir"), filepath.Join(top, "outside")
	in := filepath.Join(dir, "in")
	expect.OK(t, os.Mkdir(dir, 0o700))
	expect.OK(t, os.WriteFile(outside, []byte("precious"), 0o600))
	var stop atomic.Bool
	var other sync.WaitGroup
	other.Go(func() {
		for !stop.Load() {
			_ = os.Link(outside, in)
			_ = os.Remove(in)
		}
	})
	for range 5_000 {
		// A file that is created again meanwhile is written, and removed above.
		_, _ = writeFile(dir, acpsdk.WriteTextFileRequest{Path: "in", Content: "new"})
	}
	stop.Store(true)
	other.Wait()
	if text, err := os.ReadFile(outside); err != nil || string(text) != "precious" {
		t.Errorf("the file outside is now %q, %v", text, err)
	}
}

// A write replaces the old file by a new one with the same owner and permissions.
func TestWriteOverAFile(t *testing.T) {
	t.Parallel()
	a, dir := confined(t)
	expect.OK(t, os.MkdirAll(filepath.Join(dir, "deep", "er"), 0o700))
	script := filepath.Join(dir, "deep", "script")
	expect.OK(t, os.WriteFile(script, []byte("old"), 0o600))
	expect.OK(t, os.Chmod(script, 0o741))
	if os.Geteuid() == 0 {
		expect.OK(t, os.Chown(script, 61001, 61002))
	}
	expect.OK(t, os.Symlink("deep/er", filepath.Join(dir, "far")))
	expect.OK(t, os.Symlink("../script", filepath.Join(dir, "deep", "er", "link")))
	before, err := os.Stat(script)
	expect.OK(t, err)
	if got := calls(t, a, `fs/write_text_file {"path":"far/link","content":"new"}`)[0]; got != `{"result":{}}` {
		t.Fatal(got)
	}
	after, err := os.Lstat(script)
	expect.OK(t, err)
	if text, err := os.ReadFile(script); err != nil || string(text) != "new" || after.Mode() != before.Mode() {
		t.Errorf("%q, %v, %v", text, after.Mode(), err)
	}
	was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	if was.Uid != is.Uid || was.Gid != is.Gid {
		t.Errorf("it belonged to %d:%d, and now to %d:%d", was.Uid, was.Gid, is.Uid, is.Gid)
	}
	if info, err := os.Lstat(filepath.Join(dir, "deep", "er", "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info, err)
	}
	// A failed write leaves no file.
	expect.OK(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	if got := calls(t, a, `fs/write_text_file {"path":"taken","content":"new"}`)[0]; !strings.Contains(got, `"error"`) {
		t.Error(got)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".turnstile-*"))
	more, _ := filepath.Glob(filepath.Join(dir, "deep", ".turnstile-*"))
	if len(left)+len(more) > 0 || err != nil {
		t.Errorf("left: %v %v, %v", left, more, err)
	}
}

// A user who may not read a file cannot read its new content during the write, either.
func TestAWriteShowsNobodyWhatTheFileHides(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
	content := strings.Repeat("x", maxFile)
	var stop atomic.Bool
	var other sync.WaitGroup
	seen := map[string]fs.FileMode{}
	other.Go(func() {
		for !stop.Load() {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if info, err := e.Info(); err == nil {
					seen[e.Name()] |= info.Mode()
				}
			}
		}
	})
	for range 30 {
		_, err := writeFile(dir, acpsdk.WriteTextFileRequest{Path: "secret", Content: content})
		expect.OK(t, err)
	}
	stop.Store(true)
	other.Wait()
	if len(seen) < 2 {
		t.Error("no write was seen")
	}
	for name, mode := range seen {
		if mode&0o077 != 0 {
			t.Fatalf("%s was there as %v", name, mode)
		}
	}
}

// Opening a file that is not a regular one never blocks, not even a pipe with a silent writer or
// with a reader.
func TestPipesInTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	expect.OK(t, syscall.Mkfifo(path, 0o600))
	both, err := os.OpenFile(path, os.O_RDWR, 0)
	expect.OK(t, err)
	defer func() { expect.OK(t, both.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = readFile(ctx, dir, acpsdk.ReadTextFileRequest{Path: "pipe"})
	failed(t, err, false, "is not a regular file")
	_, err = writeFile(dir, acpsdk.WriteTextFileRequest{Path: "pipe", Content: "x"})
	failed(t, err, false, "is not a regular file")
}

// Requests for files are served one at a time, since each may need much memory.
func TestFilesOneAtATime(t *testing.T) {
	t.Parallel()
	turn := &turn{}
	turn.begin(t.Context())
	nothing := func() (any, error) { return nil, nil }
	ctx, cancel := context.WithCancel(t.Context())
	_, err := turn.file(t.Context(), func() (any, error) {
		cancel()
		_, err := turn.file(ctx, nothing)
		failed(t, err, false, "the turn was cancelled")
		return nil, nil
	})
	expect.OK(t, err)
	_, err = turn.file(t.Context(), nothing)
	expect.OK(t, err)
}

// cancelling is a file that is cancelled while it is read.
type cancelling struct {
	holes
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.holes.Read(p)
}

func TestCancelledRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &cancelling{holes{left: maxPassed}, cancel}
	if _, err := lines(ctx, f, 2, 1); err == nil || !strings.Contains(err.Error(), "cancelled") || f.read > 64<<10 {
		t.Errorf("%v after %d bytes", err, f.read)
	}
}

package acp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	acpsdk "github.com/coder/acp-go-sdk"
)

// writeFile replaces or creates a file, and creates the directories above it.
//
// It never writes into an existing file, which may have another hard link outside dir. Refusing
// files with such a link is not enough, because links come and go between the check and the write.
func writeFile(dir string, p acpsdk.WriteTextFileRequest) (any, error) {
	if len(p.Content) > maxFile {
		return nil, fmt.Errorf("%.200q: more than %d MiB cannot be written", p.Path, maxFile>>20)
	}
	root, rel, err := openRoot(dir, p.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	old, err := writable(root, rel)
	switch {
	case err == nil:
		if rel, err = linked(root, dir, rel); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	if err := replace(root, rel, p.Content, old); err != nil {
		return nil, err
	}
	return acpsdk.WriteTextFileResponse{}, nil
}

// writable checks an existing file: it must be a regular one that may be written and has no other
// link.
func writable(root *os.Root, rel string) (fs.FileInfo, error) {
	f, info, err := openFile(root, rel, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return nil, fmt.Errorf("%.200q has another hard link and is not written: remove it first, or write to another name", rel)
	}
	return info, nil
}

// linked is the target of a symbolic link at rel, or rel itself if there is none.
func linked(root *os.Root, dir, rel string) (string, error) {
	info, err := root.Lstat(rel)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return rel, err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, rel))
	if err != nil {
		return "", err
	}
	return inside(dir, path)
}

// replace puts a new file at rel. If there was an old one, it keeps the owner and the permissions.
func replace(root *os.Root, rel, content string, old fs.FileInfo) (err error) {
	fresh := filepath.Join(filepath.Dir(rel), ".turnstile-"+rand.Text())
	perm := fs.FileMode(0o644)
	if old != nil {
		perm = 0o600 // until it has the old file's, which may hide it from others
	}
	f, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(fresh)
		}
	}()
	_, err = f.WriteString(content)
	if err == nil && old != nil {
		err = resemble(f, old)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(fresh, rel)
}

// resemble gives a file the owner and the permissions of another.
func resemble(f *os.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	was, known := old.Sys().(*syscall.Stat_t)
	if ok && known && (is.Uid != was.Uid || is.Gid != was.Gid) {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return fmt.Errorf("the file belongs to another user or group, which a new one cannot be given: %w", err)
		}
	}
	return f.Chmod(old.Mode().Perm())
}

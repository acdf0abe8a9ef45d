package acp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"
)

const (
	// maxFile is how many bytes of a file are read or written at once.
	maxFile = 4 << 20

	// maxPassed is how many bytes a read may skip before the first wanted line. A sparse file can
	// have any number of them and use no disk.
	maxPassed = 64 << 20
)

// openFile opens a regular file of the root. os.Root keeps links from leading out of it. A pipe or
// a device is an error, and opening one does not block.
func openFile(root *os.Root, rel string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(rel, flags|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%.200q is not a regular file", rel)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// openRoot opens dir, and returns path relative to it.
func openRoot(dir, path string) (*os.Root, string, error) {
	rel, err := inside(dir, path)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	return root, rel, err
}

func readFile(ctx context.Context, dir string, p acpsdk.ReadTextFileRequest) (any, error) {
	first, most := 1, -1
	if p.Line != nil && *p.Line > 1 {
		first = *p.Line
	}
	if p.Limit != nil {
		most = max(*p.Limit, 0)
	}
	root, rel, err := openRoot(dir, p.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, _, err := openFile(root, rel, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := lines(ctx, f, first, most)
	if err != nil {
		return nil, fmt.Errorf("%.200q: %w", p.Path, err)
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%.200q is not UTF-8 text", p.Path)
	}
	return acpsdk.ReadTextFileResponse{Content: text}, nil
}

// lines reads most lines from line first on; all of them if most is below 0. It skips at most
// maxPassed bytes before them and returns at most maxFile, whatever the file's size.
func lines(ctx context.Context, r io.Reader, first, most int) (string, error) {
	var text strings.Builder
	passed := 0
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; most < 0 || n-first < most; {
		if ctx.Err() != nil {
			return "", errors.New("the turn was cancelled")
		}
		part, err := in.ReadSlice('\n')
		if n >= first {
			text.Write(part)
		} else {
			passed += len(part)
		}
		switch {
		case text.Len() > maxFile:
			return "", fmt.Errorf("that is more than %d MiB: read fewer lines at a time", maxFile>>20)
		case passed > maxPassed:
			return "", fmt.Errorf("line %d is more than %d MiB into the file: read it with a command such as sed", first, maxPassed>>20)
		}
		switch {
		case err == nil:
			n++
		case errors.Is(err, io.EOF):
			return text.String(), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
	return text.String(), nil
}

// requestError is an error as the agent receives it.
func requestError(err error) *acpsdk.RequestError {
	code := codeInternal
	var r refusal
	switch {
	case errors.As(err, &r):
		code = r.code
	case errors.Is(err, fs.ErrNotExist):
		code = codeNotFound
	}
	return &acpsdk.RequestError{Code: code, Message: err.Error()}
}

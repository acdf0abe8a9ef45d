package acp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"
)

// maxFile is how many bytes of a file are read or written at once.
const maxFile = 4 << 20

// openFile opens a plain file below dir. os.Root sees to it that no link leads out of
// it. A pipe or a device is none, and is not waited for.
func openFile(dir, path string, flags int) (*os.File, error) {
	rel, err := inside(dir, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if parent := filepath.Dir(rel); flags&os.O_CREATE != 0 && parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return nil, err
		}
	}
	f, err := root.OpenFile(rel, flags|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%.200q is no plain file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func readFile(ctx context.Context, dir string, p acpsdk.ReadTextFileRequest) (any, error) {
	first, most := 1, -1
	if p.Line != nil && *p.Line > 1 {
		first = *p.Line
	}
	if p.Limit != nil {
		most = max(*p.Limit, 0)
	}
	f, err := openFile(dir, p.Path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := lines(ctx, f, first, most)
	if err != nil {
		return nil, fmt.Errorf("%.200q: %w", p.Path, err)
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%.200q is no text in UTF-8", p.Path)
	}
	return acpsdk.ReadTextFileResponse{Content: text}, nil
}

// lines reads so many lines, beginning with the one of that number; most below 0: all.
// What is before them may be long, so it looks at ctx.
func lines(ctx context.Context, r io.Reader, first, most int) (string, error) {
	var text strings.Builder
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; most < 0 || n-first < most; {
		if ctx.Err() != nil {
			return "", errors.New("the turn was cancelled")
		}
		part, err := in.ReadSlice('\n')
		if n >= first {
			text.Write(part)
		}
		if text.Len() > maxFile {
			return "", fmt.Errorf("that is more than %d MiB: read fewer lines at a time", maxFile>>20)
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

func writeFile(dir string, p acpsdk.WriteTextFileRequest) (any, error) {
	if len(p.Content) > maxFile {
		return nil, fmt.Errorf("%.200q: more than %d MiB cannot be written", p.Path, maxFile>>20)
	}
	// Not truncated by opening it: it may turn out to be no plain file.
	f, err := openFile(dir, p.Path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteString(p.Content)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return acpsdk.WriteTextFileResponse{}, nil
}

// requestError is an error as the agent is told of it.
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

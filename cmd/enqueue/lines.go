package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxLine limits a line of a file, in bytes. JSON may write a character with several times its
// bytes.
const maxLine = 8 << 20

// lines reads a file line by line, so that its size does not matter.
type lines struct {
	r      *bufio.Reader
	close  func()
	size   int64 // of the file, -1: unknown
	number int   // of the line that was read last
}

func openLines(name string, stdin io.Reader) (*lines, error) {
	if name == "-" {
		return &lines{r: bufio.NewReaderSize(stdin, 64<<10), close: func() {}, size: -1}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usage(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("open %s: it is a directory", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, usage(err)
	}
	size := info.Size()
	if !info.Mode().IsRegular() {
		size = -1
	}
	return &lines{r: bufio.NewReaderSize(f, 64<<10), close: func() { _ = f.Close() }, size: size}, nil
}

var errLongLine = fmt.Errorf("the line has more than %d bytes", maxLine)

// next returns the next line without its break, and how many bytes it took. After the last it
// returns io.EOF. A line that is too long is skipped and returned as errLongLine.
func (l *lines) next() (line []byte, n int, err error) {
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		n += len(part)
		if long = long || n > maxLine+1; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return nil, n, err
		}
		break
	}
	l.number++
	if long {
		return nil, n, errLongLine
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, n, nil
}

// lineSet is a set of line numbers.
type lineSet struct{ numbers []int }

func (s *lineSet) add(n int) { s.numbers = append(s.numbers, n) }

// String is the set as "lines 3-5, 9", or empty.
func (s *lineSet) String() string {
	slices.Sort(s.numbers)
	var parts []string
	for i := 0; i < len(s.numbers); {
		j := i
		for j+1 < len(s.numbers) && s.numbers[j+1] == s.numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(s.numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(s.numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if len(parts) == 0 {
		return ""
	}
	return "lines " + strings.Join(parts, ", ")
}

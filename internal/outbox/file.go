package outbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// maxFileLen bounds what is read of a wrong file.
const maxFileLen = 4 << 20

// File is a destinations file. Its methods may be called at once.
type File struct {
	path    string
	current atomic.Pointer[Destinations]
}

// OpenFile reads the file.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	return f, f.Reload()
}

// Reload reads the file again. After an error the destinations stay as they are.
func (f *File) Reload() error {
	text, err := f.read()
	if err != nil {
		return fmt.Errorf("read the destinations: %w", err)
	}
	read, err := ParseDestinations(text)
	if err != nil {
		return fmt.Errorf("read the destinations in %s: %w", f.path, err)
	}
	f.current.Store(read)
	return nil
}

// Current returns the destinations as last read.
func (f *File) Current() *Destinations { return f.current.Load() }

func (f *File) read() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileLen+1))
	if err == nil && len(text) > maxFileLen {
		err = errors.New(f.path + " has more than 4 MiB: is it the right file?")
	}
	return text, err
}

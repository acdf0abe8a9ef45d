package outbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// maxFileLen bounds the reading of a wrong file.
const maxFileLen = 4 << 20

// followEvery is how often Follow reads the file.
const followEvery = 2 * time.Second

// File is a destinations file, or NoFile. It is safe for concurrent use.
type File struct {
	path    string // "": NoFile
	current atomic.Pointer[Destinations]

	mu   sync.Mutex
	seen [sha256.Size]byte // of the text that was read last, even if it had mistakes
	gone bool              // it could not be read

	own     string // the routes of the file when Share last compared them
	shared  atomic.Pointer[Routes]
	differs atomic.Bool
}

// OpenFile reads the file.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	return f, f.Reload()
}

// NoFile is for a process without a file: it has no destinations, and follows the others by Share. Do
// not Reload or Follow it.
func NoFile() *File {
	f := &File{}
	f.current.Store(&Destinations{})
	return f
}

// Reload reads the file again. After an error the destinations stay as they are.
func (f *File) Reload() error {
	_, err := f.reload(true)
	return err
}

// Follow reads the file again whenever its text changes, until ctx ends. So it follows files that are
// replaced, too, such as those of a mounted secret. A mistake is logged once.
func (f *File) Follow(ctx context.Context, log *slog.Logger) { f.follow(ctx, followEvery, log) }

func (f *File) follow(ctx context.Context, every time.Duration, log *slog.Logger) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		switch changed, err := f.reload(false); {
		case err != nil && changed:
			log.Error("the destinations stay as they were", "file", f.path, "error", err)
		case changed:
			log.Info("the destinations have changed", "file", f.path, "destinations", f.Current().Names())
		}
	}
}

// reload reads the file, and parses its text if the text is new or always is set. changed is false if
// the result is that of the last call, also the same error.
func (f *File) reload(always bool) (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.read()
	if err != nil {
		changed, f.gone = !f.gone, true
		return changed, fmt.Errorf("read the destinations: %w", err)
	}
	sum := sha256.Sum256(text)
	if changed = sum != f.seen || f.gone; !changed && !always {
		return false, nil
	}
	f.seen, f.gone = sum, false
	read, err := ParseDestinations(text)
	if err != nil {
		return changed, fmt.Errorf("read the destinations in %s: %w", f.path, err)
	}
	if before := f.current.Swap(read); before != nil && !reflect.DeepEqual(before.Routes(), read.Routes()) {
		f.shared.Store(nil) // a changed file decides
	}
	return changed, nil
}

// Current returns the destinations that were read last.
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

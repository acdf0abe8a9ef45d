package world

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// fsync is Redis' appendfsync.
func (t Topology) fsync() string {
	if t == Everysec {
		return "everysec"
	}
	return "always"
}

// synced is a file in which redis-server's library notes how much of the append-only file is on the
// disk: 8 bytes, and then the name of that file.
type synced struct{ file string }

func newSynced(dir string) (synced, error) {
	s := synced{filepath.Join(dir, "synced")}
	return s, os.WriteFile(s.file, make([]byte, 8192), 0o644)
}

func (s synced) environ() string { return "CHAOS_SYNCED=" + s.file }

// read returns the size that was synced last, and the file's name: "" if none was.
func (s synced) read() (size int64, name string, err error) {
	note, err := os.ReadFile(s.file)
	if err != nil {
		return 0, "", err
	}
	text, _, _ := bytes.Cut(note[8:], []byte{0})
	return int64(binary.LittleEndian.Uint64(note)), string(text), nil
}

// cut removes unsynced data from the append-only file, and returns its size.
func (s synced) cut() (lost int64, err error) {
	size, name, err := s.read()
	if err != nil {
		return 0, err
	}
	if name == "" {
		return 0, errors.New("redis-server has never synced its append-only file")
	}
	at, err := os.Stat(name)
	if err != nil || at.Size() <= size {
		return 0, err
	}
	return at.Size() - size, os.Truncate(name, size)
}

// LosePower kills the server as if its machine had lost power: unsynced data is lost. It returns
// the number of these bytes of the append-only file.
func (w *World) LosePower(ctx context.Context) (lost int64, err error) {
	s := w.Primary()
	s.Down(syscall.SIGKILL, 0)
	if lost, err = w.synced.cut(); err != nil {
		return 0, err
	}
	if err := s.Start(); err != nil {
		return lost, err
	}
	return lost, s.serves(ctx)
}

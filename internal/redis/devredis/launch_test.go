package devredis_test

import (
	"errors"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"turnstile/internal/redis/devredis"
	"turnstile/test/redistest"
)

func launch(t *testing.T, port int) (*devredis.Process, error) {
	t.Helper()
	dir := t.TempDir()
	return devredis.Launch(t.Context(), dir, port, nil, append(devredis.Args(dir, port), "--save", ""))
}

func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for what, addr := range map[string]string{
		"another program": silent.Addr().String(),
		"another Redis":   redistest.StartServer(t).Addr(),
	} {
		_, text, _ := net.SplitHostPort(addr)
		port, _ := strconv.Atoi(text)
		if _, err := launch(t, port); !errors.Is(err, devredis.ErrPortTaken) {
			t.Errorf("by %s: %v", what, err)
		}
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	for how, end := range map[string]func(*devredis.Process){
		"Stop": func(s *devredis.Process) { s.Stop(10 * time.Second) },
		"Kill": (*devredis.Process).Kill,
		"itself": func(s *devredis.Process) {
			if p, err := os.FindProcess(s.PID()); err != nil || p.Kill() != nil {
				t.Error("it does not run")
			}
			s.Wait()
		},
	} {
		s := somewhere(t)
		if s.Ended() {
			t.Errorf("%s: it has ended before", how)
		}
		end(s)
		if !s.Ended() || s.Signal(0) == nil {
			t.Errorf("%s: it runs", how)
		}
		s.Kill()
		s.Stop(0)
	}
}

// somewhere launches a server on a free port.
func somewhere(t *testing.T) *devredis.Process {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		s, err := launch(t, port)
		if err == nil {
			return s
		}
		if !errors.Is(err, devredis.ErrPortTaken) {
			t.Fatal(err)
		}
	}
}

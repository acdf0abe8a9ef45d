package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// startTimeout is how long a server may take until it serves.
const startTimeout = 30 * time.Second

// serveRestate runs restate-server with its own settings, on loopback. Its address is that of its ingress
// and that of its administration.
func serveRestate(ctx context.Context, _ job) (*server, error) {
	program, err := restateProgram()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "turnstile-peers-restate-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	cmd := exec.CommandContext(ctx, program, "--no-logo", "--listen-mode", "tcp", "--node-name", "bench", "--base-dir", dir)
	cmd.Env = append(os.Environ(), "RESTATE_BIND_IP=127.0.0.1", "RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn",
		fmt.Sprint("RESTATE_INGRESS__BIND_PORT=", ports[0]), fmt.Sprint("RESTATE_ADMIN__BIND_PORT=", ports[1]), fmt.Sprint("RESTATE_BIND_PORT=", ports[2]))
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Start()
	_ = log.Close()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	ingress, admin := fmt.Sprint("http://127.0.0.1:", ports[0]), fmt.Sprint("http://127.0.0.1:", ports[1])
	for _, url := range []string{admin + "/health", ingress + "/restate/health"} {
		if err := healthy(ctx, url); err != nil {
			text, _ := os.ReadFile(log.Name())
			stop()
			return nil, fmt.Errorf("%w; its log ends: %s", err, last(string(text), 300))
		}
	}
	return &server{
		address:   ingress + " " + admin,
		processor: func(context.Context) (time.Duration, error) { return processorTime(cmd.Process.Pid) },
		stop:      stop,
	}, nil
}

// restateProgram is the npm package's binary for this system.
func restateProgram() (string, error) {
	found, err := filepath.Glob(filepath.Join(modules(), "@restatedev", "restate-server-*", "bin", "restate-server"))
	if err == nil && len(found) == 0 {
		err = errors.New("the npm package has no restate-server for this system")
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// healthy returns when a URL responds with 200.
func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not respond: %w", url, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func last(text string, n int) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-n):]
}

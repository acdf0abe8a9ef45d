package deploy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// The containers' commands work: the dashboard and the health check, with their commands and
// environments.
func TestComposeCommandsExist(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if entry := readDockerfile(t)["worker"].all("ENTRYPOINT"); !slices.Equal(entry, []string{`["/usr/local/bin/worker"]`}) {
		t.Fatalf("this test runs worker, the image %v", entry)
	}
	run := func(s service, args ...string) *exec.Cmd {
		return program.Command(t, program.Build(t, "turnstile/cmd/worker"), environ(s), args...)
	}
	check := func(s service) error {
		test := s.Healthcheck.Test
		if len(test) < 2 || test[0] != "CMD" || test[1] != "worker" {
			t.Fatalf("health check %v", test)
		}
		out, err := run(s, test[2:]...).CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(bytes.TrimSpace(out))))
		}
		return nil
	}

	services := readCompose(t, token).Services
	dashboard := services["asynqmon"]
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	dashboard.Environment["REDIS_URL"] = redistest.URL(t)
	dashboard.Environment["TURNSTILE_HTTP_ADDR"] = "0.0.0.0:" + port
	if err := check(dashboard); err == nil {
		t.Fatal("the health check succeeds where nothing runs")
	}

	p := program.Start(t, run(dashboard, dashboard.Command...))
	expect.Soon(t, "the dashboard's health", func() bool { return check(dashboard) == nil })
	// The worker's health check differs only in its environment.
	worker := services["worker"]
	worker.Environment["TURNSTILE_HTTP_ADDR"] = addr
	if err := check(worker); err != nil {
		t.Errorf("the worker's health check: %v", err)
	}

	for password, code := range map[string]int{"": 401, "wrong": 401, token["TURNSTILE_HTTP_TOKEN"]: 200} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/asynqmon/api/queues", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("anybody", password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != code {
			t.Errorf("with the password %q: %s, want %d", password, response.Status, code)
		}
	}
	http.DefaultClient.CloseIdleConnections()

	p.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code after SIGTERM", p.ExitCode(), 0)
}

func freeAddr(t *testing.T) string { return redistest.FreeAddr(t) }

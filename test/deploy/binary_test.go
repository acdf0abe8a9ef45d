package deploy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"turnstile/test/redistest"
)

// The image's program is run as the containers run it: the dashboard with its
// command and environment, and the health check with its own.
func TestComposeCommandsExist(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	_, final := readDockerfile(t)
	if entry := final.all("ENTRYPOINT"); !slices.Equal(entry, []string{`["/usr/local/bin/worker"]`}) {
		t.Fatalf("this test runs worker, the image %v", entry)
	}
	bin := t.TempDir()
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+"/", "./cmd/worker")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	run := func(s service, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "worker"), args...)
		cmd.Env = append(environ(s), "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
		return cmd
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

	cmd := run(dashboard, dashboard.Command...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for healthy := false; !healthy; {
		select {
		case err := <-ended:
			t.Fatalf("the dashboard ended: %v\n%s", err, &output)
		default:
			healthy = check(dashboard) == nil
		}
	}
	// The worker's health check differs in its environment alone.
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

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, &output)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

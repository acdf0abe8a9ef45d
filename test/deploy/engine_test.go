package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"turnstile/test/expect"
	"turnstile/test/program"
)

// engine stands for Docker Engine and Compose, which this machine does not have, in a test of deploy/roll.sh. Its containers are
// processes. It takes the calls of the script, word by word, and no others. Of the real ones it assumes:
//
//   - `compose ps --quiet` lists the running containers and those that restart, not those that have ended.
//   - `compose up --no-recreate --scale` leaves all containers as they are and adds what lacks, from what the image's name stands
//     for now. It would start one that is stopped, too. It does not wait for their health.
//   - `compose rm --force` removes those that have ended.
//   - `stop` sends stop_signal to all at once, waits for each as long as its stop_grace_period, kills, and is no reason to restart.
//   - `restart: always` starts whatever ends otherwise again, counted as RestartCount, until `update --restart no`.
//   - Health is "starting" until the first check succeeds, and "unhealthy" after some that fail. Here it is checked at each inspect,
//     and only an image that is never healthy becomes unhealthy, so that a slow machine is no failure.
type engine struct {
	*testing.T
	service service
	image   string // what the image's name stands for now
	bin     string // has the command docker
	least   int    // how many healthy ones there must always be

	inspected, stopping func() // called at an inspect, and when stop has signalled all

	mu         sync.Mutex
	containers []*container
	made       int
}

type container struct {
	ID, Name     string
	RestartCount int
	State        struct {
		Status string
		Health *struct{ Status string }
	}

	image, restart, addr string
	process              *program.Process
	failed               int  // health checks
	stopped              bool // by hand
}

// images are what a worker's image may be: variables that differ from the service's.
var images = map[string][]string{
	"old":             nil,
	"new":             nil,
	"ends":            {"TURNSTILE_CONCURRENCY=none"},
	"never healthy":   {"TURNSTILE_HTTP_ADDR=127.0.0.1:0"}, // it works, and its check asks elsewhere
	"without a check": nil,
}

func startEngine(t *testing.T, environ ...string) *engine {
	t.Helper()
	e := &engine{T: t, service: readCompose(t, token).Services["worker"], image: "old", bin: t.TempDir(), inspected: func() {}, stopping: func() {}}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		e.service.Environment[name] = value
	}
	socket := filepath.Join(e.bin, "s")
	listener, err := net.Listen("unix", socket)
	expect.OK(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		words, _ := io.ReadAll(r.Body)
		out, err := e.call(strings.Split(strings.TrimSuffix(string(words), "\n"), "\n"))
		if err != nil {
			t.Logf("docker %q: %v", words, err)
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, out)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	docker := "#!/bin/sh\nprintf '%s\\n' \"$@\" | exec curl --silent --fail --unix-socket " + socket + " --data-binary @- http://docker/\n"
	expect.OK(t, os.WriteFile(filepath.Join(e.bin, "docker"), []byte(docker), 0o700)) //nolint:gosec // it is run
	return e
}

// set changes fields of the engine between two calls.
func (e *engine) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// roll is deploy/roll.sh, with this engine.
func (e *engine) roll() *exec.Cmd {
	return program.Command(e, root+"/deploy/roll.sh", []string{"PATH=" + e.bin + ":" + os.Getenv("PATH")})
}

func (e *engine) call(words []string) (out string, err error) {
	e.set(func() {})
	line := strings.Join(words, " ")
	up := "compose up --detach --no-recreate "
	switch {
	case line == "compose ps --quiet worker":
		for _, c := range e.all(func(c *container) bool { return c.State.Status != "exited" }) {
			out += c.ID + "\n"
		}
		return out, nil
	case line == "compose rm --force worker":
		e.remove(func(c *container) bool { return c.State.Status == "exited" })
		return "", nil
	case line == up+"worker":
		return "", e.scale(e.service.Scale)
	case strings.HasPrefix(line, up+"--no-deps --scale worker="):
		n, service, _ := strings.Cut(strings.TrimPrefix(line, up+"--no-deps --scale worker="), " ")
		number, err := strconv.Atoi(n)
		if service != "worker" || err != nil {
			return "", fmt.Errorf("unknown arguments: %s", line)
		}
		return "", e.scale(number)
	case words[0] == "inspect" && words[1] == "--format":
		return e.inspect(words[2], words[3:])
	case words[0] == "stop":
		return "", e.stop(words[1:])
	case words[0] == "rm", words[0] == "update" && words[1] == "--restart" && words[2] == "no":
		named, err := e.named(words[map[string]int{"rm": 1, "update": 3}[words[0]]:])
		if words[0] == "rm" {
			e.remove(func(c *container) bool { return slices.Contains(named, c) && c.State.Status == "exited" })
			return "", err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, c := range named {
			c.restart = "no"
		}
		return "", err
	}
	return "", errors.New("an unknown call")
}

func (e *engine) all(which func(*container) bool) (list []*container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.containers {
		if which(c) {
			list = append(list, c)
		}
	}
	return list
}

func (e *engine) named(ids []string) ([]*container, error) {
	list := e.all(func(c *container) bool { return slices.Contains(ids, c.ID) })
	if len(list) != len(ids) || len(ids) == 0 {
		return nil, fmt.Errorf("no such containers: %q", ids)
	}
	return list, nil
}

func (e *engine) remove(which func(*container) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers = slices.DeleteFunc(e.containers, which)
}

// scale creates and starts containers until there are n, and starts the stopped ones.
func (e *engine) scale(n int) error {
	if _, known := images[e.image]; !known {
		return fmt.Errorf("no such image: %s", e.image)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n < len(e.containers) {
		return errors.New("it would remove containers")
	}
	for len(e.containers) < n {
		e.made++
		c := &container{
			ID: fmt.Sprintf("%012d%052d", e.made, 0), Name: fmt.Sprintf("/worker-%d", e.made),
			image: e.image, restart: "always", addr: freeAddr(e.T),
		}
		if c.image != "without a check" {
			c.State.Health = &struct{ Status string }{}
		}
		e.containers = append(e.containers, c)
	}
	for _, c := range e.containers {
		if c.State.Status == "" || c.State.Status == "exited" {
			c.stopped = false
			e.start(c)
		}
	}
	return nil
}

// command is the worker's program in a container.
func (e *engine) command(c *container, changed []string, args ...string) *exec.Cmd {
	return program.Command(e, program.Build(e, "turnstile/cmd/worker"), slices.Concat(environ(e.service), []string{"TURNSTILE_HTTP_ADDR=" + c.addr}, changed), args...)
}

func (e *engine) start(c *container) {
	if c.State.Status = "running"; c.State.Health != nil {
		c.State.Health.Status = "starting"
	}
	p := program.Start(e, e.command(c, images[c.image], e.service.Command...))
	c.process = p
	go func() {
		<-p.Ended()
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.stopped || c.restart == "no" || e.Context().Err() != nil {
			c.State.Status = "exited"
			return
		}
		c.State.Status = "restarting"
		if c.RestartCount++; c.RestartCount < 3 { // later, Docker pauses
			e.start(c)
		}
	}()
}

// healthy carries out a container's health check.
func (e *engine) healthy(c *container) bool {
	return c.State.Health != nil && e.command(c, nil, e.service.Healthcheck.Test[2:]...).Run() == nil
}

func (e *engine) inspect(format string, ids []string) (string, error) {
	e.inspected()
	list, err := e.named(ids)
	if err != nil {
		return "", err
	}
	parsed, err := template.New("").Parse(format)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	for _, c := range list {
		healthy := e.healthy(c)
		e.mu.Lock()
		if healthy {
			c.State.Health.Status = "healthy"
		} else if c.failed++; c.image == "never healthy" && c.failed == 3 {
			c.State.Health.Status = "unhealthy"
		}
		err = errors.Join(err, parsed.Execute(&out, c))
		out.WriteString("\n")
		e.mu.Unlock()
	}
	return out.String(), err
}

func (e *engine) stop(ids []string) error {
	list, err := e.named(ids)
	if err != nil {
		return err
	}
	others := e.all(func(c *container) bool { return !c.stopped && !slices.Contains(list, c) })
	left := 0
	for range 3 { // a check may fail on a busy machine
		if left = len(slices.DeleteFunc(slices.Clone(others), func(c *container) bool { return !e.healthy(c) })); left >= e.least {
			break
		}
	}
	if left < e.least {
		e.Errorf("%d healthy workers are left, of %d", left, e.least)
	}
	e.mu.Lock()
	for _, c := range list {
		c.stopped = true
		if c.State.Status == "restarting" {
			c.State.Status = "exited"
		}
		c.process.Signal(syscall.SIGTERM)
	}
	e.mu.Unlock()
	e.stopping()
	grace, err := time.ParseDuration(e.service.StopGracePeriod)
	for _, c := range list {
		select {
		case <-c.process.Ended():
		case <-time.After(grace):
			c.process.Kill()
		}
		expect.Soon(e, "the engine's notice of an end", func() bool { // before stop returns
			return slices.Contains(e.all(func(c *container) bool { return c.State.Status == "exited" }), c)
		})
	}
	return err
}

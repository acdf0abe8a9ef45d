package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A gateway is killed at every step of a request, before or after it. The client repeats the request
// at another gateway: there are one message, one turn and one outcome. Without TURNSTILE_PROOF=true
// each step is tried before or after it, in turn.
func TestDeathAtEveryStep(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := s.die(t, "", false)
			for _, step := range s.steps {
				if !slices.Contains(reached, step) {
					t.Fatalf("only these steps were counted: %q", reached)
				}
			}
			t.Logf("%q", reached)
			for i, step := range reached {
				for k, when := range []string{"before", "after"} {
					if !expect.Sampled(i+k, 2) {
						continue
					}
					before := when == "before"
					t.Run(when+" "+step, func(t *testing.T) {
						t.Parallel()
						s.die(t, step, before)
					})
				}
			}
		})
	}
}

// die plays the story with a gateway that is killed at a step, and returns the steps if there is none.
func (s story) die(t *testing.T, step string, before bool) []string {
	t.Helper()
	r := newRig(t)
	r.prepare(s)
	cmd, url, out := startGateway(t, requestJob{redistest.URL(t), step, before})
	var status int
	var text string
	var err error
	expect.Soon(t, "the gateway's death, or a response that is no 503", func() bool { // on a busy machine it may connect to Redis late
		status, text, err = s.send(t.Context(), url)
		return err != nil || status != 503
	})
	if step == "" {
		expect.OK(t, err)
		expect.OK(t, cmd.close())
		line, err := out.ReadString('\n')
		expect.OK(t, err)
		r.finish(s, status, text)
		return strings.Split(strings.TrimSpace(line), ",")
	}
	if err == nil && (step != "reply" || before) {
		t.Errorf("it was not killed: %d %s", status, text)
	}
	if err == nil && status >= 300 {
		t.Errorf("%d %s", status, text)
	}
	r.repeat(s)
	return nil
}

// Redis is killed at every step of a request, before or after it, and restarted. A request with a
// 2xx response is stored, and a client that repeats its request succeeds.
func TestRedisDiesAtEveryStep(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	for name, s := range stories {
		for _, step := range s.steps {
			for when, before := range map[string]bool{"before": true, "after": false} {
				t.Run(name+" "+when+" "+step, func(t *testing.T) {
					t.Parallel()
					s.outlive(t, step, before)
				})
			}
		}
	}
}

func (s story) outlive(t *testing.T, step string, before bool) {
	t.Helper()
	server := acl.Server(t)
	rdb := acl.Open(t, server, acl.Gateway)
	r := rigOn(t, server.Client())
	r.prepare(s)
	killed := make(chan string, 1)
	at := &steps{at: step, before: before, strike: func() {
		server.Kill()
		killed <- step
	}}
	rdb.AddHook(at)
	faulty := rigOn(t, rdb)
	url := served(t, at.serve(faulty.gateway))
	type response struct {
		status int
		text   string
		err    error
	}
	responses := make(chan response, 1)
	go func() {
		status, text, err := s.send(t.Context(), url)
		responses <- response{status, text, err}
	}()
	expect.Received(t, "Redis' end", killed)
	var first response
	if s.prefer == "" {
		first = expect.Received(t, "the response", responses)
		server.Start()
	} else {
		server.Start() // a wait goes on
		first = expect.Received(t, "the response", responses)
	}
	expect.OK(t, first.err)
	if first.status < 300 {
		_, err := turnstile.NewClient(server.Client()).Session("s").Message(t.Context(), "m")
		expect.OK(t, err)
	} else if first.status != 503 {
		t.Errorf("%d %s", first.status, first.text)
	}
	r.repeat(s)
}

// repeat sends the story's request to a living gateway, as a client does also after a 503, and
// finishes the story.
func (r *rig) repeat(s story) {
	r.Helper()
	var status int
	var text string
	expect.Soon(r, "a response that is no 503", func() (served bool) {
		var err error
		status, text, err = s.send(r.Context(), r.url)
		expect.OK(r, err)
		return status != 503
	})
	r.finish(s, status, text)
}

// prepare sets up the beginning of a story.
func (r *rig) prepare(s story) {
	r.Helper()
	for _, text := range script.All() {
		expect.OK(r, r.redis.ScriptLoad(r.Context(), text.Source).Err())
	}
	c := turnstile.NewClient(r.redis)
	if s.method == "DELETE" {
		for _, id := range []string{"m", "n"} {
			_, err := c.Session("s").Send(r.Context(), turnstile.Message{ID: id, Text: id})
			expect.OK(r, err)
		}
	}
	if s.worker {
		r.worker()
	}
}

// finish checks the last response, and the stored state after the end of every message.
func (r *rig) finish(s story, status int, text string) {
	r.Helper()
	if !s.worker {
		r.worker()
	}
	c := turnstile.NewClient(r.redis)
	o, err := c.Session("s").Wait(r.Context(), "m")
	expect.OK(r, err)
	turns := "m"
	if s.method == "DELETE" {
		expect.Equal(r.T, "outcome", string(o.Status), "stopped")
		expect.Equal(r.T, "status", status, 200)
		contains(r.T, "response", text, `"status":"stopped"`)
		_, err := c.Session("s").Wait(r.Context(), "n")
		expect.OK(r, err)
		turns = "n"
	} else {
		expect.Equal(r.T, "outcome", string(o.Status)+" "+o.Reply, "done echo: hello")
		if status != 200 && status != 202 || s.prefer != "" && status != 200 {
			r.Errorf("status %d", status)
		}
		if status == 202 {
			contains(r.T, "response", text, `"id":"m"`)
		} else {
			contains(r.T, "response", text, `"reply":"echo: hello"`)
			contains(r.T, "response", text, o.Turn)
		}
	}
	var ran []string
	var page struct{ Entries []session.Entry }
	r.call("GET", "/v1/sessions/s/transcript", nil).want(200, &page)
	for _, e := range page.Entries {
		if e.Role == session.RoleUser {
			ran = append(ran, e.Message)
		}
	}
	expect.List(r.T, "messages that ran", ran, turns)
	expect.Equal(r.T, "those that wait", r.redis.LLen(r.Context(), "asynq:{session:s}:pending").Val(), 0)
}

// gatewayChild is a gateway in a separate process.
type gatewayChild struct {
	*exec.Cmd
	close func() error // the parent's end
}

func startGateway(t *testing.T, j requestJob) (child gatewayChild, url string, out *bufio.Reader) {
	t.Helper()
	expect.NotQuick(t)
	text, err := json.Marshal(j)
	expect.OK(t, err)
	self, err := os.Executable()
	expect.OK(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), requestChildVariable+"="+string(text))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	expect.OK(t, err)
	pipe, err := cmd.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	out = bufio.NewReader(pipe)
	line, err := out.ReadString('\n')
	expect.OK(t, err)
	return gatewayChild{cmd, in.Close}, strings.TrimSpace(line), out
}

// requestChildVariable makes the test binary a gateway; its value is a requestJob.
const requestChildVariable = "TURNSTILE_TEST_REQUEST_CHILD"

// requestJob configures a gateway that is killed at a step.
type requestJob struct {
	URL    string // of Redis
	Step   string // empty: it is not killed
	Before bool
}

// run serves until the parent closes its end, and then prints the steps.
func (j requestJob) run() error {
	rdb, err := redisconn.Open(j.URL)
	if err != nil {
		return err
	}
	s := &steps{at: j.Step, before: j.Before, strike: func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the process is about to die
	}}
	rdb.AddHook(s)
	g := gateway.New(gateway.Config{}, gateway.Deps{
		Client: turnstile.NewClient(rdb), Admin: admin.NewClient(rdb), Store: store.New(rdb), Logger: slog.New(slog.DiscardHandler),
	})
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(socket, s.serve(g)) }() //nolint:gosec // it ends with the process
	fmt.Println("http://" + socket.Addr().String())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	fmt.Println(strings.Join(s.names(), ","))
	return nil
}

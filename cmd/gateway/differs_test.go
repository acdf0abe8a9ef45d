package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"turnstile/internal/protocol/agreement"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
)

// Built workers and a gateway under their Redis users: who starts with another limit warns, names the setting
// and one that has the other value. `worker ps --workers` lists the gateway until its drain.
func TestGatewaysAndWorkersDiffer(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	start := func(path, user string, settings ...string) (*program.Process, agreement.Process) {
		t.Helper()
		p := program.Start(t, program.Command(t, path, append(settings, "REDIS_URL="+acl.URL(t, server.URL(), user))))
		var own agreement.Process
		expect.Soon(t, "what it publishes", func() bool {
			all, err := agreement.Living(t.Context(), server.Client())
			expect.OK(t, err)
			for _, one := range all {
				if one.Gateway == (user == acl.Gateway) {
					own = one
				}
			}
			return own.Name != ""
		})
		return p, own
	}
	worker := program.Build(t, "turnstile/cmd/worker")
	_, first := start(worker, acl.Worker, "TURNSTILE_AGENT=echo", "TURNSTILE_MESSAGE_BYTES=1048576")
	p, gateway := start(program.Build(t, "turnstile/cmd/gateway"), acl.Gateway, "TURNSTILE_GATEWAY_ADDR=127.0.0.1:0")
	p.Output.Await(t, "setting=TURNSTILE_MESSAGE_BYTES own=2097152 other=1048576 neighbour="+first.Name+"\n")
	second, _ := start(worker, acl.Worker, "TURNSTILE_AGENT=echo", "TURNSTILE_MESSAGE_BYTES=1048576")
	second.Output.Await(t, "setting=TURNSTILE_MESSAGE_BYTES own=1048576 other=2097152 neighbour="+gateway.Name+"\n")

	listed := func() string {
		out, err := program.Command(t, worker, []string{"REDIS_URL=" + acl.URL(t, server.URL(), acl.Operator)}, "ps", "--workers").CombinedOutput()
		expect.OK(t, err)
		return string(out)
	}
	row := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(gateway.Name) + `[ -]+ gateway +` + regexp.QuoteMeta(gateway.Version) + ` +- +TURNSTILE_MESSAGE_BYTES=2097152 *$`)
	if out := listed(); !row.MatchString(out) {
		t.Errorf("ps --workers: %s", out)
	}
	p.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", p.ExitCode(), exitOK)
	expect.Equal(t, "the gateway is listed after its end", strings.Contains(listed(), gateway.Name), false)
	acl.NothingRefused(t, server)
}

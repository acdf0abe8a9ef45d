package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/pkg/admin"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
)

// Two built gateways with different files and one without run under their Redis user. An outcome goes to the
// same destination whichever of them took the message. The gateway with the file that is not in force logs
// it.
func TestTwoGatewaysRouteByOneFile(t *testing.T) {
	t.Parallel()
	folder, server := t.TempDir(), acl.Server(t)
	write := func(gateway, destination string) (path string) {
		t.Helper()
		path = filepath.Join(folder, gateway)
		text := fmt.Sprintf(`[{"name": %q, "url": "https://bot.example/hook", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["web:*"]}]`, destination)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var gateways []*program.Process
	for _, file := range []string{write("one", "one"), write("two", "two"), ""} {
		p := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
			"REDIS_URL=" + acl.URL(t, server.URL(), acl.Gateway), "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + file,
		}, "--addr", "127.0.0.1:0"))
		expect.Soon(t, "the address", func() bool { return listens.MatchString(p.Output.String()) })
		gateways = append(gateways, p)
	}
	operator := admin.NewClient(server.Client())
	// outcome sends a message to a gateway, and returns the destination of its outcome.
	outcome := func(p *program.Process, session string) (to string) {
		t.Helper()
		url := "http://" + listens.FindStringSubmatch(p.Output.String())[1] + "/v1/sessions/" + session + "/messages"
		for _, call := range [][2]string{{http.MethodPost, url}, {http.MethodDelete, url + "/m"}} {
			r, err := http.NewRequestWithContext(t.Context(), call[0], call[1], strings.NewReader(`{"text": "hi"}`))
			expect.OK(t, err)
			if call[0] == http.MethodDelete {
				r.Body = http.NoBody
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "m")
			response, err := http.DefaultClient.Do(r)
			expect.OK(t, err)
			expect.OK(t, response.Body.Close())
			if response.StatusCode >= 300 {
				t.Fatalf("%s: %s", call, response.Status)
			}
		}
		for d, err := range operator.Session(session).Deliveries(t.Context()) {
			expect.OK(t, err)
			to += d.Destination
		}
		return to
	}
	expect.Equal(t, "by the first", outcome(gateways[0], "web:1"), "one")
	expect.Equal(t, "by the second", outcome(gateways[1], "web:2"), "one")
	expect.Equal(t, "by the one without a file", outcome(gateways[2], "web:3"), "one")
	gateways[1].Output.Await(t, "another gateway's file of destinations decides")

	write("one", "three")
	gateways[0].Output.Await(t, "the destinations have changed")
	expect.Equal(t, "by the first, after a change", outcome(gateways[0], "web:4"), "three")
	n := 4
	for _, p := range gateways[1:] {
		expect.Soon(t, "the others to follow", func() bool {
			n++
			return outcome(p, fmt.Sprint("web:", n)) == "three"
		})
	}
	write("two", "three")
	gateways[1].Output.Await(t, "gateways have the same destinations again")
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
)

// Two built gateways, under their own Redis user, say that their files differ, and when they no longer do.
func TestTwoGatewaysCompareDestinations(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	server := acl.Server(t)
	write := func(name, sessions string) (path string) {
		t.Helper()
		path = filepath.Join(folder, name)
		text := fmt.Sprintf(`[{"name": "bot", "url": "https://bot.example/hook", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": [%q]}]`, sessions)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var gateways []*program.Process
	for name, sessions := range map[string]string{"one": "web:*", "two": "tg:*"} {
		gateways = append(gateways, program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
			"REDIS_URL=" + acl.URL(t, server.URL(), acl.Gateway), "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + write(name, sessions),
		}, "--addr", "127.0.0.1:0")))
	}
	for _, p := range gateways {
		p.Output.Await(t, "gateways have different destinations")
	}
	write("one", "tg:*")
	for _, p := range gateways {
		p.Output.Await(t, "gateways have the same destinations again")
	}
}

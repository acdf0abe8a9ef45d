package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// An environment is refused with one line for each problem, without secrets, or gives valid
// settings.
func FuzzEnvironment(f *testing.F) {
	secrets := map[string]bool{}
	var names []string
	for _, s := range slices.Concat(WorkerSettings(), GatewaySettings()) {
		if !s.File { // a file's name would be opened
			names = append(names, s.Name)
		}
		secrets[s.Name] = s.Secret
	}
	names = append(slices.Compact(slices.Sorted(slices.Values(names))), "TURNSTILE_SENTINEL", "TURNSTILE_\n", "OPENAI_API_KEY")
	at := func(name string) uint8 { return uint8(slices.Index(names, name)) }
	for name, value := range map[string]string{
		"TURNSTILE_CONCURRENCY": "99999999999999999999", "TURNSTILE_DRAIN_TIMEOUT": "9223372036854775807ns", "TURNSTILE_AGENT": "echo",
		"TURNSTILE_SENTINEL": "x", "TURNSTILE_\n": "\u202e", "TURNSTILE_AGENT_ENV": "A,B_*,REDIS_URL", "TURNSTILE_AGENT_COMMAND": "a 'b",
		"TURNSTILE_GATEWAY_ADDR": "0.0.0.0:8081", "TURNSTILE_RECOVERY_RATE": "nan",
		"TURNSTILE_AGENTS_FILE": "gone\n\xde.json",
	} {
		f.Add(at(name), value, at("TURNSTILE_STOP_TIMEOUT"), "30s")
	}
	f.Add(at("TURNSTILE_AGENT"), strings.Repeat("long", 1000), at("TURNSTILE_LOG_LEVEL"), "loud\n")
	f.Fuzz(func(t *testing.T, a uint8, one string, b uint8, other string) {
		vars := map[string]string{"TURNSTILE_AGENT": "echo"}
		vars[names[int(a)%len(names)]] = one
		vars[names[int(b)%len(names)]] = other
		var environ []string
		for name, value := range vars {
			environ = append(environ, name+"="+value)
		}
		w, workerErr := LoadWorker(environ, Options{})
		_, gatewayErr := LoadGateway(environ, Options{})
		for _, err := range []error{workerErr, gatewayErr} {
			if err == nil {
				continue
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v does not wrap ErrInvalid", err)
			}
			for line := range strings.Lines(err.Error()) {
				expect.Line(t, "a problem", strings.TrimSuffix(line, "\n"), 12*(len(one)+len(other))+1000)
			}
			for name, value := range vars {
				if secrets[name] && len(value) > 12 && strings.Contains(err.Error(), value) {
					t.Errorf("a problem has the secret of %s: %q", name, err)
				}
			}
		}
		if workerErr == nil && (w.Concurrency < 1 || w.Concurrency > 10_000 || w.DrainTimeout < 0 || w.StopTimeout > 0 && w.StopTimeout < w.DrainTimeout) {
			t.Errorf("%q is %+v", environ, w)
		}
	})
}

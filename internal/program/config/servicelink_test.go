package config

import (
	"slices"
	"testing"
)

// Variables that Kubernetes sets for a service called turnstile, or turnstile-something, stop
// neither a worker nor a sender.
func TestServiceLinks(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"TURNSTILE_SERVICE_HOST":                  "10.0.0.11",
		"TURNSTILE_SERVICE_PORT":                  "8080",
		"TURNSTILE_SERVICE_PORT_HTTP":             "8080",
		"TURNSTILE_SERVICE_PORT_HTTP_ALT_2":       "8081",
		"TURNSTILE_PORT":                          "tcp://10.0.0.11:8080",
		"TURNSTILE_PORT_8080_TCP":                 "tcp://10.0.0.11:8080",
		"TURNSTILE_PORT_8080_TCP_PROTO":           "tcp",
		"TURNSTILE_PORT_8080_TCP_PORT":            "8080",
		"TURNSTILE_PORT_8080_TCP_ADDR":            "10.0.0.11",
		"TURNSTILE_PORT_53_UDP_ADDR":              "10.0.0.11",
		"TURNSTILE_REDIS_SERVICE_HOST":            "10.0.0.12",
		"TURNSTILE_REDIS_SERVICE_PORT":            "6379",
		"TURNSTILE_REDIS_2_PORT":                  "tcp://10.0.0.12:6379",
		"TURNSTILE_DNS_PORT":                      "udp://[fd00::1]:53",
		"TURNSTILE_SIGNALS_PORT":                  "sctp://10.0.0.12:7",
		"TURNSTILE_SIGNALS_PORT_7_SCTP":           "sctp://10.0.0.12:7",
		"TURNSTILE_CONCURRENCY_SERVICE_PORT_GRPC": "9",
	} {
		if _, err := LoadWorker(with(map[string]string{name: value}), Options{}); err != nil {
			t.Errorf("worker: %v", err)
		}
		if _, err := LoadSender([]string{name + "=" + value}, Options{}); err != nil {
			t.Errorf("sender: %v", err)
		}
	}
}

// Variables that only resemble them are still reported as unknown.
func TestNoServiceLinks(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"TURNSTILE_PORT":               "8080",
		"TURNSTILE_HTTP_PORT":          "8080",
		"TURNSTILE_REDIS_PORT":         "",
		"TURNSTILE_REDIS_HOST":         "redis",
		"TURNSTILE_SERVICEHOST":        "10.0.0.11",
		"TURNSTILE_SERVICE_HOST_2":     "10.0.0.11",
		"TURNSTILE_SERVICE":            "tcp://10.0.0.11:8080",
		"TURNSTILE_PORT_HTTP_TCP":      "tcp://10.0.0.11:8080",
		"TURNSTILE_PORT_8080":          "tcp://10.0.0.11:8080",
		"TURNSTILE_PORT_8080_TCP_NAME": "x",
		"TURNSTILE_CONCURENCY":         "3",
	} {
		if _, err := LoadWorker(with(map[string]string{name: value}), Options{}); len(lines(t, err)) != 1 {
			t.Errorf("worker, %s=%s: %v", name, value, err)
		}
		if _, err := LoadSender([]string{name + "=" + value}, Options{}); len(lines(t, err)) != 1 {
			t.Errorf("sender, %s=%s: %v", name, value, err)
		}
	}
	for _, s := range slices.Concat(WorkerSettings(), SenderSettings()) {
		if isServiceLink(s.Name, "tcp://10.0.0.11:8080") {
			t.Errorf("the setting %s has the form of a service link", s.Name)
		}
	}
}

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// Nobody reads the log: requests get their responses, and the program ends when it should. A reader who comes back
// reads how many lines are missing.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	start := func(args ...string) (*program.Process, *bufio.Reader) {
		r, w := watched.FullPipe(t)
		expect.OK(t, r.SetReadDeadline(time.Now().Add(expect.Patience)))
		path := program.Build(t, "turnstile/cmd/gateway")
		cmd := program.Command(t, path, []string{"REDIS_URL=" + redistest.URL(t), "TURNSTILE_LOG_LEVEL=debug"}, args...)
		cmd.Stdout, cmd.Stderr = w, w
		p := program.Start(t, cmd)
		_ = w.Close()
		return p, bufio.NewReader(r)
	}
	for _, wrong := range []string{"--nothing", "--addr=8081"} {
		p, _ := start(wrong)
		expect.Equal(t, "exit code with "+wrong, p.ExitCode(), exitUsage)
	}

	p, log := start("--addr", "127.0.0.1:0")
	until := func(want *regexp.Regexp) string {
		t.Helper()
		for {
			line, err := log.ReadString('\n')
			expect.OK(t, err)
			if found := want.FindStringSubmatch(line); found != nil {
				return found[1]
			}
		}
	}
	address := "http://" + until(regexp.MustCompile(`msg="serving HTTP" addr=(\S+)`))
	get := func(path string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, http.NoBody)
		expect.OK(t, err)
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		expect.OK(t, err)
		return string(text)
	}
	missing := func() string {
		t.Helper()
		return regexp.MustCompile(`(?m)^turnstile_log_lines_left_out_total (\d+)$`).FindStringSubmatch(get("/metrics"))[1]
	}
	overflow := func() {
		t.Helper()
		session := url.PathEscape(strings.Repeat("漢", 2000)) // it is refused, and makes long lines
		for before := missing(); missing() == before; {
			for range 50 {
				get("/v1/sessions/" + session)
			}
		}
	}
	overflow()
	gap := until(regexp.MustCompile(`"log lines were left out: nobody read the log" lines=(\d+)`))
	expect.Equal(t, "lines in the gap", gap, missing())
	overflow()
	p.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", p.ExitCode(), exitOK)
}

package deploy

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"turnstile"
	"turnstile/internal/protocol/deliveries"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

const alertsFolder, dashboardFile = root + "/deploy/alerts", root + "/deploy/grafana/turnstile.json"

// promtool runs Debian's promtool. In CI it must be there.
func promtool(t *testing.T, dir string, args ...string) (out string, err error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is missing: install the package prometheus")
		}
		t.Skip("promtool is missing")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	return string(text), err
}

type rules struct {
	Groups []struct {
		Rules []struct{ Alert, Expr string }
	}
}

func readRules(t *testing.T) (r rules) {
	t.Helper()
	text, err := os.ReadFile(alertsFolder + "/turnstile.yml")
	expect.OK(t, err)
	expect.OK(t, yaml.Unmarshal(text, &r))
	return r
}

// Prometheus takes the alerts, and promtool's own tests show when each fires and when it does not.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "turnstile.yml"}, {"test", "rules", "tests.yml"}} {
		if out, err := promtool(t, alertsFolder, args...); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	var tested struct {
		Tests []struct {
			AlertTests []struct {
				Alertname string
				Expected  []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	text, err := os.ReadFile(alertsFolder + "/tests.yml")
	expect.OK(t, err)
	expect.OK(t, yaml.Unmarshal(text, &tested))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, one := range tested.Tests {
		for _, a := range one.AlertTests {
			if len(a.Expected) > 0 {
				fires[a.Alertname] = true
			} else {
				quiet[a.Alertname] = true
			}
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s: a test where it fires: %t, where it does not: %t", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
		}
	}
}

// place is a panel's place in the dashboard's grid.
type place struct{ X, Y, W, H int }

type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos place
		Targets []struct {
			RefID, Expr string
			Datasource  struct{ Type, UID string }
		}
	}
}

// readDashboard reads the dashboard, and fails if Grafana would show two panels at one place or one without
// data.
func readDashboard(t *testing.T) (exprs []string) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	expect.OK(t, err)
	var d dashboard
	expect.OK(t, json.Unmarshal(text, &d))
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %s: its number is taken, or it shows nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || target.RefID == "" {
				t.Errorf("%s: a target of %q, called %q", p.Title, target.Datasource.UID, target.RefID)
			}
			exprs = append(exprs, target.Expr)
		}
	}
	return exprs
}

// Every panel shows something of what a real worker and a real gateway export, and every alert looks at metrics
// that they export. promtool evaluates the panels' expressions over the two pages.
func TestDashboardFitsTheMetrics(t *testing.T) {
	t.Parallel()
	series := exported(t)
	names := map[string]bool{}
	type inputSeries struct{ Series, Values string }
	var input []inputSeries
	for name, value := range series {
		before, _, _ := strings.Cut(name, "{")
		names[before] = true
		input = append(input, inputSeries{name, value + "x60"})
	}
	exprs := readDashboard(t)
	metric := regexp.MustCompile(`turnstile_[a-z_]+`)
	check := func(where, expr string) {
		for _, name := range metric.FindAllString(expr, -1) {
			if !names[name] {
				t.Errorf("%s: nobody exports %s", where, name)
			}
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			check(r.Alert, r.Expr)
		}
	}
	type exprTest struct {
		Expr     string
		EvalTime string `yaml:"eval_time"`
	}
	var tests []exprTest
	for _, expr := range exprs {
		check("a panel", expr)
		tests = append(tests, exprTest{strings.ReplaceAll(expr, "$__rate_interval", "5m"), "30m"})
	}
	dir := t.TempDir()
	text, err := yaml.Marshal(map[string]any{"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": tests}}})
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(filepath.Join(dir, "panels.yml"), text, 0o600))
	// Each expects no samples, so promtool lists those with some.
	out, _ := promtool(t, dir, "test", "rules", "panels.yml")
	for _, one := range tests {
		if !strings.Contains(out, fmt.Sprintf("expr: %q", one.Expr)) {
			t.Errorf("a panel is empty: %s", one.Expr)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// exported returns the series of a worker and a gateway that have done a bit of everything.
func exported(t *testing.T) map[string]string {
	t.Helper()
	const secret = "a-token-of-the-tests"
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	destination := func(name, more string) string {
		return fmt.Sprintf(`{"name": %q, "url": "%s/%s", "private": true, "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]%s}`, name, receiver.URL, name, more)
	}
	agent := file("agent", `#!/bin/sh
echo '{"type":"usage","usage":{"model":"m","input_tokens":10,"cached_tokens":4,"output_tokens":2,"cost_usd":0.01}}'
echo '{"type":"text","text":"hello"}'
`, 0o700)
	url := redistest.URL(t)
	environment := []string{"REDIS_URL=" + url, "TURNSTILE_HTTP_ADDR=127.0.0.1:0", "TURNSTILE_HTTP_TOKEN=" + secret}
	worker := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), append(environment,
		"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", "TURNSTILE_AGENT_COMMAND="+agent)))
	gateway := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
		"REDIS_URL=" + url, "TURNSTILE_GATEWAY_ADDR=127.0.0.1:0", "TURNSTILE_DELIVER=true",
		"TURNSTILE_GATEWAY_TOKENS_FILE=" + file("tokens", fmt.Sprintf(`[{"name": "a", "sha256": "%x", "sessions": ["*"], "may": ["read", "send", "operate"]}]`, sha256.Sum256([]byte(secret))), 0o600),
		"TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + file("destinations", "["+destination("good", "")+","+destination("bad", "")+","+destination("strict", `, "from": ["other:*"]`)+"]", 0o600),
	}))
	get := func(p *program.Process) map[string]string {
		t.Helper()
		listens := regexp.MustCompile(`serving HTTP" addr=(\S+)`)
		expect.Soon(t, "the address", func() bool { return listens.MatchString(p.Output.String()) })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listens.FindStringSubmatch(p.Output.String())[1]+"/metrics", http.NoBody)
		expect.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		defer response.Body.Close()
		expect.Equal(t, "status", response.StatusCode, http.StatusOK)
		found := map[string]string{}
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if line := lines.Text(); !strings.HasPrefix(line, "#") {
				at := strings.LastIndexByte(line, ' ')
				found[line[:at]] = line[at+1:]
			}
		}
		return found
	}
	get(worker)
	get(gateway)
	rdb := redistest.New(t)
	client := turnstile.NewClient(rdb)
	for _, m := range []turnstile.Message{{ReplyTo: "good"}, {ReplyTo: "bad"}, {ReplyTo: "bad", ReplyWithin: time.Second}, {ReplyTo: "strict"}} {
		m.Text = "hi"
		_, err := client.Session(turnstile.NewMessageID()).Send(t.Context(), m)
		expect.OK(t, err)
	}
	all := map[string]string{}
	expect.Soon(t, "a delivery, a dead letter and a refusal", func() bool {
		expect.OK(t, deliveries.Owings{"good": {Count: 1, Oldest: 1}}.Store(t.Context(), rdb)) // as the worker counts them every 20 s
		for instance, p := range map[string]*program.Process{"w": worker, "g": gateway} {
			for name, value := range get(p) {
				before, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
				all[before+`{instance="`+instance+`",`+labels+"}"] = value
			}
		}
		left := map[string]bool{
			"turnstile_delivery_age_seconds_count": true, "turnstile_deliveries_dead_total": true, "turnstile_deliveries_refused_total": true,
			"turnstile_delivery_failures_total": true, "turnstile_destination_owed": true, "turnstile_cost_usd_total": true,
		}
		for name := range all {
			before, _, _ := strings.Cut(name, "{")
			delete(left, before)
		}
		return len(left) == 0
	})
	return all
}

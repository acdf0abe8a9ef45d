package config

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/settings.md")

const page = "../../../docs/settings.md"

// Each program's settings are a table of the page.
func TestPageHasTheSettings(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, settings := range map[string][]Setting{"settings": WorkerSettings(), "gateway settings": GatewaySettings()} {
		begin, end := "<!-- "+name+": made by go test ./internal/program/config -update -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(text, begin)
		table, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("docs/settings.md has no lines %q and %q around a table", begin, end)
		}
		want := "\n" + Markdown(settings) + "\n"
		if table != want && !*update {
			t.Errorf("the %s in docs/settings.md are out of date: run go test ./internal/program/config -update", name)
		}
		text = before + begin + want + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	worker := map[string]Setting{}
	for _, s := range WorkerSettings() {
		worker[s.Name] = s
		if s.Unit == "" || s.Meaning == "" || !strings.HasSuffix(s.Meaning, ".") {
			t.Errorf("%s is not documented: %+v", s.Name, s)
		}
	}
	if fields := len(reflect.VisibleFields(reflect.TypeFor[Worker]())); len(worker) != fields-7 {
		t.Errorf("%d settings of %d fields, all but RedisURLSet, Agents, AgentName, AgentSet, AgentsOwn, AgentSettings and Stored should be one", len(worker), fields)
	}
	for _, s := range SenderSettings() {
		if w := worker[s.Name]; w.Default != s.Default || w.Unit != s.Unit {
			t.Errorf("%s: the sender's %+v differs from the worker's %+v", s.Name, s, w)
		}
	}
}

func TestWriteHelp(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteHelp(&b, WorkerSettings()); err != nil {
		t.Fatal(err)
	}
	for _, s := range WorkerSettings() {
		if !strings.Contains(b.String(), "  "+s.Name+" ("+s.Unit+"; default ") {
			t.Errorf("%s is missing", s.Name)
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 90 {
			t.Errorf("a long line: %q", line)
		}
	}
}

package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// mayDiffer has the settings that may differ between the processes of an installation, by the reason. A
// session meets all others, whichever worker or gateway it comes to.
var mayDiffer = map[string]string{
	"each process reaches Redis in its own way":        "REDIS_URL",
	"what the machine has room for":                    "TURNSTILE_CONCURRENCY TURNSTILE_AGENTS TURNSTILE_WAITING_AGENTS TURNSTILE_WARM_AGENTS TURNSTILE_WARM_TTL TURNSTILE_PARK_AFTER TURNSTILE_GATEWAY_RATE",
	"what the machine's agents find there":             "TURNSTILE_AGENT_ENV TURNSTILE_WORKSPACE_DIR TURNSTILE_WORKSPACE_GROUP TURNSTILE_CONFINED_READ TURNSTILE_CONFINED_PORTS TURNSTILE_WRAPPER TURNSTILE_WRAPPER_KILL",
	"a secret that is rotated":                         "TURNSTILE_MODEL_KEY TURNSTILE_HTTP_TOKEN",
	"how the process dies, and how others learn of it": "TURNSTILE_SENTINEL_TTL TURNSTILE_DRAIN_TIMEOUT TURNSTILE_INTERRUPT_GRACE TURNSTILE_STOP_TIMEOUT TURNSTILE_GATEWAY_DRAIN_TIMEOUT",
	"the process's own round":                          "TURNSTILE_SWEEP_INTERVAL",
	"what the process serves, and to whom":             "TURNSTILE_HTTP_ADDR TURNSTILE_DASHBOARD_WRITE TURNSTILE_GATEWAY_ADDR TURNSTILE_GATEWAY_TOKENS_FILE TURNSTILE_GATEWAY_OPEN TURNSTILE_GATEWAY_HOSTS TURNSTILE_GATEWAY_ORIGINS TURNSTILE_GATEWAY_ASYNQMON_URL",
	"what the process does besides":                    "TURNSTILE_DELIVER",
	"the process's log":                                "TURNSTILE_LOG_LEVEL TURNSTILE_LOG_FORMAT",
}

// Each setting must be the same everywhere, or is above. Another value of one that must be the same
// changes what Agreed says of it, and of nothing else; another value of the rest changes nothing.
func TestEverySettingAgreesOrMayDiffer(t *testing.T) {
	t.Parallel()
	var may []string
	for _, names := range mayDiffer {
		may = append(may, strings.Fields(names)...)
	}
	read := map[string]bool{}
	for _, program := range []any{Worker{}, Gateway{}} {
		usual := Agreed(program)
		for _, field := range reflect.VisibleFields(reflect.TypeOf(program)) {
			name, as := field.Tag.Get("env"), field.Tag.Get("agree")
			if name == "" || name == "-" {
				continue
			}
			read[name] = true
			if (as == "") != slices.Contains(may, name) {
				t.Errorf("%s: either it has the tag agree, or mayDiffer has a reason", name)
			}
			if field.Tag.Get("secret") == "true" && as == "value" {
				t.Errorf("%s may have a secret, which all could read", name)
			}
			other := reflect.New(reflect.TypeOf(program)).Elem()
			fill(t, other.FieldByIndex(field.Index), as)
			var changed []string
			for setting, value := range Agreed(other.Interface()) {
				if was, has := usual[setting]; !has || was != value {
					changed = append(changed, setting)
				}
			}
			if as == "" {
				expect.List(t, name, changed)
			} else {
				expect.List(t, name, changed, name)
			}
		}
	}
	for _, name := range may {
		if !read[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// fill gives a setting a value that is not its zero.
func fill(t *testing.T, v reflect.Value, as string) {
	t.Helper()
	switch v.Kind() { //nolint:exhaustive // settings have no other kinds
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.ValueOf("seven")))
	case reflect.Struct: // none of these must be the same
	case reflect.String:
		v.SetString("seven")
		if as == "file" || as == "given" {
			path := filepath.Join(t.TempDir(), "file")
			expect.OK(t, os.WriteFile(path, []byte("text"), 0o600))
			v.SetString(path)
		}
	default:
		t.Fatalf("%s: give it a value here", v.Type())
	}
}

// Others learn of a secret and of a file whether they differ from theirs, and two bytes of a hash. A file
// counts by its text as it is now, wherever it is. A pipe, which can be read once, is left to whoever uses it.
func TestDigests(t *testing.T) {
	t.Parallel()
	file := func(text string) (path string) {
		path = filepath.Join(t.TempDir(), "file")
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	w := Worker{AgentSettings: AgentSettings{Command: Command{"agent", "--key=hunter2"}, ToolsFile: file("one")}, AgentsFile: file("one")}
	one := Agreed(w)
	expect.Equal(t, "secrets", strings.Contains(fmt.Sprint(one), "hunter2"), false)
	digest := regexp.MustCompile(`^#[0-9a-f]{4}$`)
	for _, name := range []string{"TURNSTILE_AGENT_COMMAND", "TURNSTILE_TOOLS_FILE", "TURNSTILE_AGENTS_FILE"} {
		if !digest.MatchString(one[name]) {
			t.Errorf("%s is %q", name, one[name])
		}
	}
	expect.Equal(t, "the same text elsewhere", one["TURNSTILE_AGENTS_FILE"], one["TURNSTILE_TOOLS_FILE"])
	expect.OK(t, os.WriteFile(w.ToolsFile, []byte("two"), 0o600))
	expect.Equal(t, "a changed file is the same", Agreed(w)["TURNSTILE_TOOLS_FILE"] == one["TURNSTILE_TOOLS_FILE"], false)
	_, given := one["TURNSTILE_GATEWAY_DESTINATIONS_FILE"]
	expect.Equal(t, "a worker without destinations says so", given, false)

	read, write, err := os.Pipe()
	expect.OK(t, err)
	defer read.Close()
	_, err = write.WriteString("[]")
	expect.OK(t, err)
	expect.OK(t, write.Close())
	w.ToolsFile = fmt.Sprintf("/dev/fd/%d", read.Fd())
	_, has := Agreed(w)["TURNSTILE_TOOLS_FILE"]
	expect.Equal(t, "a pipe counts", has, false)
	left, err := io.ReadAll(read)
	expect.OK(t, err)
	expect.Equal(t, "left in the pipe", string(left), "[]")
}

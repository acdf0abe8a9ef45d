package slash

import (
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/sotp": "/stop", "/sto": "/stop", "/stopp": "/stop", "/stip": "/stop", "/tsop": "/stop", " /Stop ": "/stop", "/STOP": "/stop",
		"/statsu": "/status", "/histroy 5": "/history", "/titel My talk": "/title", "/aprove 1 always": "/approve", "/nwe": "/new",
		"/NEW": "/new", "/ster go on": "/steer", "/undo!": "/undo", "/rest": "/reset",
		"/stat": "/status", "/hist 5": "/history", "/que collect": "/queue", "/appr": "/approve", "/Resu": "/resume", "/ret": "/retry",

		"/st": "", "/res": "", "/stat us": "", "/resu now": "", "/statusline": "",
		"/stop": "", "/new": "", "/stop now": "", "/sotp now": "", "/rest api?": "", "/now": "", "/net": "", "/ne": "", "/news": "",
		"//sotp": "", "//stop": "", "/sotp\nnow": "", "sotp": "", "stop": "", "/": "", "": "", "/stopoo": "", "/stats": "", "/compact": "", "/clear": "",
		"/init": "", "/model": "", "/review": "", "/etc/stop": "", "/unknown": "", "/redo": "", "/restart": "", "/st\u00f6p": "/stop",
	} {
		reply, ok := Suggest(text)
		name, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		expected := ""
		if want != "" {
			expected = "Unknown command " + name + ": did you mean " + want + "? To send it as a message, write /" + name + "."
		}
		if reply != expected || ok != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, reply, ok, expected)
		}
	}
}

// No command is suggested for another one.
func TestCommandsAreFarApart(t *testing.T) {
	t.Parallel()
	for _, a := range commands() {
		for _, b := range commands() {
			if a.Name != b.Name && isCommand(a.Name, b.Name) {
				t.Errorf("%s and %s", a.Name, b.Name)
			}
		}
	}
}

package turnstile

import (
	"encoding/json"
	"strings"
	"testing"

	"turnstile/pkg/session"
)

// The rest of a reply that was not seen as text, when a turn goes on from an interrupted run: what does not count
// is not taken for a part of the reply. Whoever wrote the events, none is out of bounds.
func TestRestOfAReplyAfterAnInterruption(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ events, want string }{
		"text goes":            {`start a|tool a|text a Half|start b a 1|text b All|end b All done`, " done"},
		"text stays":           {`start a|tool a|text a All|start b a 2|end b All done`, " done"},
		"steered text goes":    {`start a|tool a|text a AAAA|steered a|start b a 1|text b x|end b y`, ""},
		"all texts go":         {`start a|tool a|text a A|steered a|text a B|steered a|text a C|start b a 1|end b D`, "D"},
		"the last text goes":   {`start a|tool a|text a A|steered a|text a B|start b a 2|end b AD`, "D"},
		"it begins anew":       {`start a|text a A|start b|end b D`, "D"},
		"an earlier run's end": {`start a|text a A|end b D`, "D"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s streamed
			got := ""
			for _, line := range strings.Split(c.events, "|") {
				f := append(strings.SplitN(line, " ", 4), "", "")
				e := session.Event{Turn: f[1]}
				switch f[0] {
				case "start":
					e.Type, e.Continues = session.EventTurnStarted, f[2]
					if f[3] != "" {
						if err := json.Unmarshal([]byte(f[3]), &e.Keeps); err != nil {
							t.Fatal(err)
						}
					}
				case "tool":
					e.Type = session.EventToolStart
				case "text":
					e.Type, e.Text = session.EventText, f[2]
				case "steered":
					e.Type = session.EventSteered
				case "end":
					e.Reply = strings.TrimSuffix(f[2]+" "+f[3], " ")
					s.rest(e, func(rest session.Event) { got += rest.Text })
					continue
				}
				s.seen(e)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

package slash

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/stop": "/stop|", " /stop\t": "/stop|", "/stop\r\n": "/stop|", "/stop@mybot": "/stop|", "@mybot /stop": "/stop|", "@mybot: /stop": "/stop|",
		"<@U1AB> /stop": "/stop|", "<@!12>\u00a0/stop@x": "/stop|", "@mybot\u2068 \u2069/stop": "/stop|",
		"\u200e/stop": "/stop|", "\ufeff/stop": "/stop|", "/stop\u200b": "/stop|", "/st\u2060op": "/stop|", "／stop": "/stop|", "＠mybot ／stop": "/stop|",
		"/deny 3": "/deny|3", "/deny\u00a03": "/deny|3", "/deny@mybot 3": "/deny|3", "/deny\u30003\u200f": "/deny|3", "/deny\u200e \u200e3": "/deny|3", "/deny\t3": "/deny|3",
		"/title a\u00a0b @c": "/title|a\u00a0b @c", "/title@bot My  talk": "/title|My  talk",

		"//stop": "", "@mybot //stop": "", "/": "", "": "", "stop": "", "@mybot stop": "", "@mybot": "", "say /stop": "", "@a @b /stop": "", "<@U1": "",
		"/stop\nnow": "", "@mybot\n/stop now\nplease": "", "/stops": "", "/Stop": "", "\\/stop": "", "bob@example.com /stop": "", "/usr/bin/stop": "",
	} {
		cmd, args, ok := Parse(text)
		got := ""
		if ok {
			got = cmd.Name + "|" + args
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSuggestAfterAMention(t *testing.T) {
	t.Parallel()
	const want = "Unknown command /sotp: did you mean /stop? To send it as a message, write //sotp."
	for _, text := range []string{"@mybot /sotp", "/sotp@mybot", "\u200e／so\u200btp\u00a0"} {
		if got, ok := Suggest(text); got != want || !ok {
			t.Errorf("%q: %q", text, got)
		}
	}
}

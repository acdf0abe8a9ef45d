package board_test

import (
	"context"
	"fmt"
	"html/template"
	"strings"
	"testing"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/browser"
	"turnstile/test/expect"
)

// parrot says what it is told: in a reply, in one that is being written, and in a question.
func parrot(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	text := turn.Messages[0].Text
	turn.Emit(agent.Event{Type: session.EventThought, Text: text})
	turn.Emit(agent.Event{Type: session.EventText, Text: text})
	switch turn.Messages[0].Meta["do"] {
	case "write":
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	case "ask":
		_, err := turn.Ask(ctx, agent.Question{Name: "tool", Text: text})
		return agent.Result{}, err
	}
	return agent.Result{}, nil
}

// markdowns are texts, with the HTML of each. They end with a paragraph's end: what is being written is rendered then.
var markdowns = map[string]string{
	"**bold** and `code`\nnext":       "<p><strong>bold</strong> and <code>code</code><br>\nnext</p>",
	"- a\n- b":                        "<li>a</li>",
	"| a | b |\n|---|---|\n| 1 | 2 |": "<td>1</td>",
	"[site](https://a.example/x)":     `<a href="https://a.example/x" rel="nofollow noopener" target="_blank">site</a>`,
	"see https://a.example/y now":     `<a href="https://a.example/y" rel="nofollow noopener" target="_blank">`,
	// What has no place in a page is shown as text, and never left out.
	"*x* <script>owned()</script> <img src=x onerror=owned()>":                 "<em>x</em> &lt;script&gt;owned()&lt;/script&gt; &lt;img src=x onerror=owned()&gt;",
	"<div onclick=owned()>\n*x*\n</div>":                                       "<p>&lt;div onclick=owned()&gt;<br>\n<em>x</em><br>\n&lt;/div&gt;</p>",
	"<!-- **hidden** -->":                                                      "&lt;!-- <strong>hidden</strong> --&gt;",
	"`a` <a href=https://b.example onclick=owned()>z</a>":                      "<code>a</code> &lt;a href=",
	"[x](javascript:owned()) [y](data:text/html,owned) [z](vbscript:x)":        "<p>x y z</p>",
	"[x](JaVaScRiPt&#58;owned()) <javascript:owned()> *y*":                     "<p>x ",
	"![pixel *one*](https://spy.example/1.png) ![b](data:image/png;base64,AA)": "<p>[image pixel <em>one</em>] [image b]</p>",
	"Pay 5 EUR?\n\n[x]: https://a.example \"and *all* of it\"":                 `and <em>all</em> of it`,
	"5000. Pay it?":      `<ol start="5000">`,
	"*bidi* &#x202e;txt": "<em>bidi</em> txt",
	// Half of it.
	"```html\n<script>owned()</script>\n```":       "<pre><code>&lt;script&gt;owned()&lt;/script&gt;\n</code></pre>",
	"**bold [link](https://a.example":              `<p>**bold [link](<a href="https://a.example"`,
	"</div></article></main><script>owned() **x**": "&lt;/div&gt;&lt;/article&gt;&lt;/main&gt;&lt;script&gt;owned() <strong>x</strong>",
	// Without markup there is nothing to render.
	"plain 5 < 6 <script>": "",
}

// Wherever people's or agents' words stand on a session's page but in a question, their Markdown is rendered without anything that
// runs, loads or follows, and they are there as they were written.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workerOf(agent.Func(parrot))
	say := func(key, text, do string) string {
		receipt, err := r.client.Session(key).Send(t.Context(), turnstile.Message{Text: text, Meta: map[string]string{"do": do}})
		expect.OK(t, err)
		return receipt.ID
	}
	// The texts of a page by their places.
	places := map[string][]string{
		"":      {`<article class="entry user"`, `<article class="entry assistant"`},
		"write": {`<article class="entry user"`, ` thought">`, ` text">`},
		"ask":   {`<article class="question"`},
	}
	n := 0
	for text, want := range markdowns {
		for do, at := range places {
			n++
			key := fmt.Sprint("web:", n)
			id := say(key, text+"\n\n", do)
			var p page
			if do == "" {
				_, err := r.client.Session(key).Wait(t.Context(), id)
				expect.OK(t, err)
			}
			expect.Soon(t, "the words", func() bool {
				p = r.get("/board/s/" + key)
				return strings.Contains(p.text, at[len(at)-1])
			})
			for _, place := range at {
				want := want
				if do == "ask" {
					want = "" // what somebody decides is only shown as it was written
				}
				_, shown, _ := strings.Cut(p.text, place)
				if at := strings.Index(shown, "</details>"); at >= 0 && want != "" {
					shown = shown[:at]
				}
				html, raw, rendered := strings.Cut(shown, `<details class="raw">`)
				if expect.Equal(t, fmt.Sprintf("%.60q in %s is rendered", text, place), rendered, want != ""); !rendered {
					raw = html
				}
				if !strings.Contains(html, want) {
					t.Errorf("%.60q in %s: lacks %q: %s", text, place, want, html)
				}
				if !strings.Contains(raw, template.HTMLEscapeString(text)) {
					t.Errorf("%.60q in %s: is not there as it was written: %.400s", text, place, raw)
				}
			}
			r.lacks(p, "owned()\"", "<img src=x", "<script>", "javascript:owned()\"", `href="data:`, "<div onclick", `src="data:`, `src="https://spy`)
			if do != "" {
				_, err := r.client.Session(key).Stop(t.Context())
				expect.OK(t, err)
			}
		}
	}
}

// The cost of rendering a page is bounded. What would take too long is shown as it was written, and so are the older ones of too many
// texts.
func TestMarkdownIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	n := 0
	for text, rendered := range map[string]int{
		"|" + strings.Repeat("x|", 6000) + "\n|" + strings.Repeat("-|", 6000) + "\n" + strings.Repeat("|\n", 6000): 0, // 36 million cells
		strings.Repeat("*a_", 15_000):                                   0,
		strings.Repeat(">", 20_000):                                     0,
		strings.Repeat("[a](", 10_000):                                  0,
		strings.Repeat("1. ", 15_000):                                   0,
		strings.Repeat("- ", 10_000) + strings.Repeat("a\n", 9999):      0,
		strings.Repeat("*a* ", 2000):                                    2, // of 6 texts
		"| a | b |\n|--|--|\n" + strings.Repeat("| **1** | 2 |\n", 200): 6,
	} {
		n++
		key := fmt.Sprint("web:", n)
		for range 3 {
			r.say(key, text)
		}
		p := r.get("/board/s/" + key)
		r.has(p, 200, "<h3>assistant")
		if got := strings.Count(p.text, `<div class="rendered">`); got != rendered {
			t.Errorf("%.20q: %d texts are rendered, want %d", text, got, rendered)
		}
		if last := p.text[strings.LastIndex(p.text, "<h3>assistant"):]; strings.Contains(last, `<div class="rendered">`) != (rendered > 0) {
			t.Errorf("%.20q: the newest text: %.500s", text, last)
		}
	}
}

// A reply that is being written: the script adds its text, and the server renders the paragraphs that are whole.
func TestBrowserRendersARunningReply(t *testing.T) {
	t.Parallel()
	p := browser.Open(t)
	r := newRig(t)
	pieces := make(chan string)
	r.workerOf(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		for text := range pieces {
			turn.Emit(agent.Event{Type: session.EventText, Text: text})
		}
		return agent.Result{}, nil
	}))
	r.send("web:1", "go")
	say := func(text string) {
		select {
		case pieces <- text:
		case <-t.Context().Done():
		}
	}
	say("one **bo")
	p.Goto(r.url + "/board/s/web:1")
	p.AwaitText("#reply .text", "one **bo")
	p.Eval("window.stays = true")
	say("ld** word\n")
	say("\n```\n<script>document.title = 'owned'</script>\n\n")
	p.AwaitText("#reply .rendered strong", "bold")
	p.Await(`document.querySelector("#reply > .text:last-child").textContent.startsWith("` + "```" + `\n<script>")`)
	say("</div></article></main>")
	p.AwaitText("#reply > .text:last-child", "</div></article></main>")
	say("\n```\n\n[half](https://a.example")
	p.AwaitText("#reply .rendered pre", "<script>")
	p.AwaitText("#reply > .text:last-child", "[half](https://a.example")
	expect.Equal(t, "the text as it was written", p.Text("#reply > .raw .text"), "one **bold** word\n\n```\n<script>document.title = 'owned'</script>\n\n</div></article></main>\n```\n\n")
	close(pieces)
	p.AwaitText("#transcript .assistant .rendered", "half")
	expect.Equal(t, "the page stays", p.Eval("window.stays"), "true")
}

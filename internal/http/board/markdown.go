package board

import (
	"bytes"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// markdown makes HTML of Markdown. A line break stays one, and HTML is text. There are no definitions of links, which would
// vanish. Signs of Markdown do, and the language of a fence, so a text is also there as it was written, and a question, which
// somebody decides, is only shown so.
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(without(parser.DefaultBlockParsers(), parser.NewHTMLBlockParser())...),
		parser.WithInlineParsers(without(parser.DefaultInlineParsers(), parser.NewRawHTMLParser())...),
	)),
	goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.NewLinkify(extension.WithLinkifyAllowedProtocols([]string{"https:", "http:"}))),
	goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(images{}, 1))),
)

func without(list []util.PrioritizedValue, value any) []util.PrioritizedValue {
	return slices.DeleteFunc(list, func(v util.PrioritizedValue) bool { return v.Value == value })
}

// images renders an image as its description: the image would tell its server who reads.
type images struct{}

func (images) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		part := "]"
		if entering {
			part = "[image "
		}
		_, err := w.WriteString(part)
		return ast.WalkContinue, err
	})
}

// harmless is what may be in a rendered text: no images, and no attributes but a link's. The browser's policy forbids
// scripts, too.
var harmless = func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li",
		"table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowStandardURLs()
	p.AllowURLSchemes("https", "http", "mailto")
	p.RequireNoFollowOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true) // with rel noopener
	return p
}()

// words are a text of a person or an agent.
type words struct {
	Text string
	HTML template.HTML     // of its Markdown; "" if it has none, or too much of it
	Kind session.EventType // of a running turn's text
}

// markup finds what Markdown may change. A text without any is shown as it is.
var markup = regexp.MustCompile("(?m)[*_`~|]|\\]\\(|!\\[|://|^ {0,3}(#|>|[-+] |={3}|-{3}|\\d+[.)] )")

// renderMost bounds the rendering of a page, see cost: a second at worst, and 1 MB.
const renderMost = 40_000_000

// cost bounds what rendering a text takes. The time grows with the square of the signs that begin or end something. A
// table has as many cells in each row as in its head, however short the row is.
func cost(text string) int {
	signs, lines, bars := 0, 0, 0
	for line := range strings.Lines(text) {
		lines++
		bars = max(bars, strings.Count(line, "|"))
		for i := range len(line) {
			switch line[i] {
			case '*', '_', '~', '[', ']', '>', '|', '\n':
				signs++
			case '-', '+', '.', ')': // of a list
				if i+1 == len(line) || strings.IndexByte(" \t\r\n", line[i+1]) >= 0 {
					signs++
				}
			}
		}
	}
	return signs*signs + 500*bars*lines + 40*len(text)
}

// renders renders the texts of a page.
type renders struct {
	left int // of renderMost
}

// words renders a text.
func (r *renders) words(text string) words {
	said := words{Text: text}
	shown := shownText(text)
	if !markup.MatchString(shown) || cost(shown) > r.left {
		return said
	}
	r.left -= cost(shown)
	var page bytes.Buffer
	if markdown.Convert([]byte(shown), &page) == nil {
		said.HTML = template.HTML(printable.Text(harmless.Sanitize(page.String()))) //nolint:gosec // it is harmless
	}
	return said
}

// render renders the page's texts, the newest ones first: if they are too many, old ones are shown as they were written.
func (p *sessionPage) render() {
	r := renders{left: renderMost}
	for _, m := range p.TurnMessages {
		p.Asked = append(p.Asked, asked{m, r.words(m.Text)})
	}
	for i := range p.Live.Items {
		item := &p.Live.Items[i]
		switch {
		case item.Kind == session.EventNotice:
			item.Said = []words{{Text: item.Text}}
		case i+1 == len(p.Live.Items) && p.Question == nil: // more of it may come
			whole, rest := paragraphs(item.Text)
			item.Said = []words{r.words(whole), {Text: rest}}
		default:
			item.Said = []words{r.words(item.Text)}
		}
		for j := range item.Said {
			item.Said[j].Kind = item.Kind
		}
		item.Said = slices.DeleteFunc(item.Said, func(w words) bool { return w.Text == "" })
	}
	for i := range p.Entries {
		e := &p.Entries[len(p.Entries)-1-i]
		e.Said = r.words(e.Text)
	}
}

// paragraphs splits a text that is being written into whole paragraphs and the rest. A fence that is open is rest.
func paragraphs(text string) (whole, rest string) {
	end, at, fence := 0, 0, ""
	for line := range strings.Lines(text) {
		at += len(line)
		switch line = strings.TrimSpace(line); {
		case fence == "" && (strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")):
			fence = line[:3]
		case fence != "" && strings.HasPrefix(line, fence):
			fence = ""
		case fence == "" && line == "":
			end = at
		}
	}
	return text[:end], text[end:]
}

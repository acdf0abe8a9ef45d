package board

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

// renderer makes HTML of Markdown, without the HTML that the text has. A line break stays one.
var renderer = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.NewLinkify(extension.WithLinkifyAllowedProtocols([]string{"https:", "http:"}))),
	goldmark.WithRendererOptions(html.WithHardWraps()),
)

// harmless is what may be in a rendered text: no images, which would tell their server who reads, and no attributes but
// a link's. The browser's policy forbids scripts, too.
var harmless = func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li",
		"table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("href").OnElements("a")
	p.AllowStandardURLs()
	p.AllowURLSchemes("https", "http", "mailto")
	p.RequireNoFollowOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true) // with rel noopener
	return p
}()

// rendered makes HTML of an agent's text, which may be Markdown. The page has the text itself, too.
func rendered(text string) template.HTML {
	var page bytes.Buffer
	if err := renderer.Convert([]byte(shownText(text)), &page); err != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // it is escaped
	}
	return template.HTML(harmless.SanitizeBytes(page.Bytes())) //nolint:gosec // it is harmless
}

// markupSigns are the beginnings of what Markdown changes. A text without any is shown as it is.
const markupSigns = "*_`#>[|~-+"

// Marked reports whether an entry is an agent's text that Markdown may change.
func (e entry) Marked() bool {
	return e.Role == "assistant" && (strings.ContainsAny(e.Text, markupSigns) || strings.Contains(e.Text, "://") || strings.Contains(e.Text, "1."))
}

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

// markdown renders without the HTML that a text has. A line break stays one.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithHardWraps()))

// harmless is what a rendered text may have: no scripts, no styles, and no images, which would tell their server who reads.
var harmless = func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li",
		"table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("https", "http", "mailto")
	p.RequireParseableURLs(true)
	p.RequireNoFollowOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true) // with rel noopener
	return p
}()

// tooMuch reports whether rendering a text could take seconds: the time grows with the square of the signs in it, and a
// table has as many cells in each row as in its head, however short the row is.
func tooMuch(text string) bool {
	signs, lines, bars := 0, 0, 0
	for line := range strings.Lines(text) {
		lines, bars = lines+1, max(bars, strings.Count(line, "|"))
		for _, sign := range []string{"*", "_", "~", "[", "]", ">", "|", "-", "+", ".", ")"} {
			signs += strings.Count(line, sign)
		}
	}
	return signs+lines > 6000 || bars*lines > 20_000
}

// render responds with the HTML of a reply's Markdown. The page has the text itself, too, and shows it after an error.
func render(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil && tooMuch(string(text)) {
		err = errors.New("too much Markdown")
	}
	var page bytes.Buffer
	if err == nil {
		err = markdown.Convert(text, &page)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox") // for whoever opens it as a page
	_, _ = w.Write(harmless.SanitizeBytes(page.Bytes()))
}

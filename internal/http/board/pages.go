package board

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

//go:embed pages/*.html
var templates embed.FS

//go:embed static/*
var static embed.FS

// pages are the templates of the pages, by name. Each has the frame.
var pages = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"failure", "forget", "list", "login", "session"} {
		t := template.New(name).Funcs(functions)
		all[name] = template.Must(t.ParseFS(templates, "pages/frame.html", "pages/"+name+".html"))
	}
	return all
}()

var functions = template.FuncMap{
	"text": shownText, "line": shownLine, "json": shownJSON, "empty": emptyJSON, "file": fileLink,
	"who": gateway.Who, "ago": ago, "stamp": stamp, "clock": clock, "tokens": tokens, "usage": usage, "brief": brief, "millis": func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }, "lasted": lasted, "span": func(d session.Millis) time.Duration { return time.Duration(d) },
}

// textMost is how many bytes of one text a page shows. See docs/http.md for the whole text.
const textMost = 50_000

// shownText makes a text of several lines printable, and cuts a very long one.
func shownText(text string) string {
	if len(text) <= textMost {
		return printable.Text(text)
	}
	cut := strings.ToValidUTF8(text[:textMost], "") // without half a character at its end
	return printable.Text(cut) + fmt.Sprintf("\n[%d more bytes are not shown here]", len(text)-textMost)
}

// lineMost is how much of a text a line shows, in characters.
const lineMost = 300

// shownLine makes a text printable on one line, and cuts a long one.
func shownLine(text string) string { return cutLine(text, lineMost) }

func cutLine(text string, most int) string {
	if len(text) > 8*most {
		text = text[:8*most]
	}
	characters := []rune(printable.Line(text))
	if len(characters) <= most {
		return string(characters)
	}
	return string(characters[:most-1]) + "…"
}

// shownJSON formats a tool's input or output. A string is shown as its text.
func shownJSON(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return shownText(text)
	}
	var indented bytes.Buffer
	if json.Indent(&indented, data, "", "  ") != nil {
		return shownText(string(data))
	}
	return shownText(indented.String())
}

// emptyJSON reports whether a tool's input or output says nothing.
func emptyJSON(data json.RawMessage) bool {
	switch strings.TrimSpace(string(data)) {
	case "", "{}", "null", `""`, "[]":
		return true
	}
	return false
}

// brief is a tool's input in few words.
func brief(data json.RawMessage) string {
	if emptyJSON(data) {
		return ""
	}
	var fields map[string]json.RawMessage
	if boundedjson.Unmarshal(data, &fields) == nil && len(fields) == 1 {
		for _, value := range fields {
			data = value
		}
	}
	return cutLine(shownJSON(data), 80)
}

// ago says how long ago a time was.
func ago(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	d := time.Since(at)
	before, after := "", " ago"
	if d < 0 { // "in 3 h" for a time that was set to three hours a moment ago
		d, before, after = -d, "in ", ""
		for _, unit := range []time.Duration{time.Second, time.Minute, time.Hour} {
			if rounded := d.Round(unit); rounded < 60*unit || unit == time.Hour {
				d = rounded
				break
			}
		}
	}
	switch {
	case d < 2*time.Second && after != "":
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%s%d s%s", before, int(d.Seconds()), after)
	case d < time.Hour:
		return fmt.Sprintf("%s%d min%s", before, int(d.Minutes()), after)
	case d < 48*time.Hour:
		return fmt.Sprintf("%s%d h%s", before, int(d.Hours()), after)
	}
	return fmt.Sprintf("%s%d days%s", before, int(d.Hours()/24), after)
}

// stamp formats a time for machines, and for the tooltip.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// clock formats a time for people, who may be in any time zone.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// tokens formats a number of tokens.
func tokens(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 999_950:
		return strings.Replace(fmt.Sprintf("%.1fk", float64(n)/1e3), ".0", "", 1)
	}
	return strings.Replace(fmt.Sprintf("%.1fM", float64(n)/1e6), ".0", "", 1)
}

// usage formats a turn's usage in one line.
func usage(u *session.Usage) string {
	if u == nil {
		return ""
	}
	var parts []string
	if u.InputTokens > 0 {
		parts = append(parts, tokens(u.InputTokens)+" tokens in")
	}
	if u.CachedTokens > 0 {
		parts = append(parts, tokens(u.CachedTokens)+" cached")
	}
	if u.OutputTokens > 0 {
		parts = append(parts, tokens(u.OutputTokens)+" out")
	}
	if u.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", u.CostUSD))
	}
	if u.ContextTokens > 0 && u.ContextLimit > 0 {
		parts = append(parts, fmt.Sprintf("context %d%% full", 100*u.ContextTokens/u.ContextLimit))
	}
	if u.Model != "" {
		parts = append(parts, cutLine(u.Model, 60))
	}
	return strings.Join(parts, ", ")
}

// files are the static files by the names in links. New content has a new name.
var files = func() map[string]string {
	names := map[string]string{}
	entries, _ := static.ReadDir("static") // it is embedded
	for _, e := range entries {
		data, _ := static.ReadFile("static/" + e.Name())
		sum := sha256.Sum256(data)
		names[e.Name()] = hex.EncodeToString(sum[:8])
	}
	return names
}()

func fileLink(name string) string { return "/board/static/" + name + "?v=" + files[name] }

// serveStatic serves the script, the style and the icon.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if files[name] == "" {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == files[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	http.ServeFileFS(w, r, static, "static/"+name)
}

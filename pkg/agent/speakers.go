package agent

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"turnstile/pkg/session"
)

// The sender in a message's meta.
const (
	senderMeta     = "sender"      // an ID, such as web/alice
	senderNameMeta = "sender_name" // what people see for it
)

// mostName is how many characters of a name are shown.
const mostName = 80

// Speakers tells the people of a turn apart in the texts for a model. Where there are two or more,
// each text begins with a name line:
//
//	[@web/alice "Alice" wrote:]
//
// It has the ID in meta.sender, and meta.sender_name if there is one. All messages without a sender
// are one sender's, "?". With one sender every text stays as it is.
//
// No text can contain the name line of another: a line that looks like one is quoted with "> ". Such
// a line has an opening bracket (of Unicode's category Ps, or its tag character) and then an at sign before
// its first letter or digit. A
// line ends at every line break and control character of Unicode. A Speakers is for one goroutine.
type Speakers struct {
	first   map[string]string // the first sender's meta
	known   bool              // there is a sender
	several bool
}

// Speakers returns the senders in the turn's history and messages.
func (t *Turn) Speakers() *Speakers {
	s := speakersOf(t.History, t.Messages)
	return &s
}

func speakersOf(history []session.Entry, messages []session.Message) (s Speakers) {
	for _, e := range history {
		if e.Role == session.RoleUser {
			s.hear(e.Meta)
		}
	}
	for _, m := range messages {
		s.hear(m.Meta)
	}
	return s
}

// hear adds a sender, and reports whether it is the second one.
func (s *Speakers) hear(meta map[string]string) (second bool) {
	if !s.known {
		s.first, s.known = meta, true
	}
	second = !s.several && s.first[senderMeta] != meta[senderMeta]
	s.several = s.several || second
	return second
}

// Said returns the text of a message, or of a user's entry, as a model gets it. A message that is
// steered in may be the first of a second sender: its text then begins with a line that names the
// sender of all messages before it, which the model has without names.
func (s *Speakers) Said(text string, meta map[string]string) string {
	before := ""
	if s.hear(meta) {
		before = s.alone()
	}
	if !s.several {
		return text
	}
	return before + nameLine(meta, " wrote:]") + s.Quote(text)
}

// alone is a line about the first sender.
func (s *Speakers) alone() string { return nameLine(s.first, " wrote all messages before this one]") }

// Quote returns a text that is not a message, such as a file's name, without lines that look like name
// lines.
func (s *Speakers) Quote(text string) string {
	if !s.several || !strings.ContainsAny(text, "@﹫＠\U000E0040") { // the pattern is slow
		return text
	}
	return likeNameLine.ReplaceAllString(text, "$1> $2")
}

// noWord is anything in a line but letters, digits and at signs, and the letters that are not seen. inside is
// noWord with control characters, which are not seen, either; before a bracket they may begin a line.
const (
	noWord = `(?:[^\p{Lu}\p{Ll}\p{Lt}\p{Lo}\p{N}\p{Cc}\x{2028}\x{2029}@﹫＠\x{E0040}]|[\x{115F}\x{1160}\x{3164}\x{FFA0}])*`
	inside = `(?:[^\p{Lu}\p{Ll}\p{Lt}\p{Lo}\p{N}\n\r\v\f\x{85}\x{2028}\x{2029}@﹫＠\x{E0040}]|[\x{115F}\x{1160}\x{3164}\x{FFA0}])*`
)

var (
	likeNameLine = regexp.MustCompile(`(^|[\p{Cc}\x{2028}\x{2029}])(` + noWord + `[\p{Ps}\x{E005B}]` + inside + `[@﹫＠\x{E0040}])`)
	gatewayID    = regexp.MustCompile(`^[A-Za-z0-9._:@+=~/-]+$`)
)

// nameLine is the line about a sender. Senders that reach Redis themselves may have set any ID and name.
func nameLine(meta map[string]string, did string) string {
	id := meta[senderMeta]
	switch {
	case id == "":
		id = "?"
	case !gatewayID.MatchString(id):
		id = strconv.QuoteToASCII(id) // its bytes decide
	}
	if name := shownName(meta[senderNameMeta]); name != "" {
		id += ` "` + name + `"`
	}
	return "[@" + id + did + "\n"
}

// shownName returns a name that cannot end its quotes or the line, nor begin another.
func shownName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			return -1
		case unicode.Is(unicode.Ps, r):
			return '('
		case unicode.Is(unicode.Pe, r):
			return ')'
		case r == '\\' || unicode.Is(unicode.Quotation_Mark, r):
			return '\''
		}
		return r
	}, name)
	runes := []rune(strings.TrimSpace(clean))
	return string(runes[:min(len(runes), mostName)])
}

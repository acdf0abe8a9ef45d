// Code generated from ../lua/transcript_page.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed transcript_page.lua
var transcriptPageLua string

// TranscriptPage is the script of transcript_page.lua.
var TranscriptPage = newMove[TranscriptPageArgs]("transcript_page", transcriptPageLua, readTranscriptPage)

// TranscriptPageArgs are the arguments of TranscriptPage.
type TranscriptPageArgs struct {
	Oldest int64 // how many of the oldest entries are meant; -1: all
	Room   int64 // how many bytes a page has. Its last entry may exceed that: a page has at least one, however long
	Most   int64 // how many entries a page has, at most 2,000; 0: 2,000
}

// Words are the arguments as ARGV has them.
func (a TranscriptPageArgs) Words() []any {
	return []any{a.Oldest, a.Room, a.Most}
}

// TranscriptPageResult is the result of TranscriptPage.
type TranscriptPageResult struct {
	Left    int64
	Entries script.Result
}

func readTranscriptPage(l script.Result) (r TranscriptPageResult) {
	r.Left, r.Entries = l.Int(0), rest(l, 1)
	return r
}

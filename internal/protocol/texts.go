package protocol

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

const (
	// textsPage is how many bytes of texts one call reads; a longer text is read alone.
	textsPage = 2 << 20

	// textsCall is how many texts one call names.
	textsCall = 500
)

// Wanted is a text in one of a session's hashes, by default in that of the follow-ups. Most is how many of its bytes are wanted, -1 for all.
type Wanted struct {
	Hash, Field string
	Most        int
}

// Text is what was wanted of a stored text. Bytes is the length of the whole; -1: there is none.
type Text struct {
	Text  string
	Bytes int
}

// EachText calls see with the wanted texts of a session, in their order, until it returns false. It holds 2 MiB of them at
// a time, or one that is longer. lua/texts.lua.
func EachText(ctx context.Context, rdb script.Client, sessionKey string, wanted []Wanted, see func(Text) bool) error {
	for len(wanted) > 0 {
		var words []string
		for _, w := range wanted[:min(len(wanted), textsCall)] {
			words = append(words, w.Hash, w.Field, strconv.Itoa(w.Most))
		}
		r, err := scripts.Texts.Run(ctx, rdb, []string{rediskey.For(sessionKey).Followups()}, scripts.TextsArgs{Room: textsPage, Wanted: words})
		if err != nil {
			return err
		}
		for i := range r.Texts {
			t := Text{Bytes: -1}
			if bytes, text, ok := strings.Cut(r.Texts.Text(i), " "); ok {
				t = Text{text, int(script.Number(bytes))}
			}
			if !see(t) {
				return nil
			}
		}
		if wanted = wanted[len(r.Texts):]; len(r.Texts) == 0 {
			break // not the script's reply: it has at least one
		}
	}
	return nil
}

// EachTask calls see with fields of tasks' hashes, task by task, until it returns false. It reads them as EachText does.
func EachTask(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string, see func(i int, t script.Fields) bool, fields ...string) error {
	var wanted []Wanted
	for _, id := range taskIDs {
		for _, field := range fields {
			wanted = append(wanted, Wanted{rediskey.For(sessionKey).Task(id), field, -1})
		}
	}
	task, n := make(script.Result, 0, len(fields)), 0
	return EachText(ctx, rdb, sessionKey, wanted, func(t Text) bool {
		if task = append(task, nil); t.Bytes >= 0 {
			task[len(task)-1] = t.Text
		}
		if len(task) < len(fields) {
			return true
		}
		whole := slices.Clone(task)
		task, n = task[:0], n+1
		return see(n-1, whole.Named(fields...))
	})
}

package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"turnstile/test/history"
)

// logger writes a process's warnings and errors into the history.
type logger struct {
	log     *history.Log
	process string
	with    string
}

func (l logger) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l logger) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%v", a.Key, a.Value)
		return true
	})
	l.log.Note("%s logs %s%s%s", l.process, r.Message, l.with, text.String())
	return nil
}

func (l logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key != "worker" { // the process's name
			l.with += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
	}
	return l
}

func (l logger) WithGroup(string) slog.Handler { return l }

package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Setting describes one variable.
type Setting struct {
	Name    string
	Default string // empty: none
	Unit    string // its unit or form, or the possible values
	Meaning string
	Secret  bool // never show its value
	File    bool // NAME_FILE may name a file with the value
}

// WorkerSettings describes the worker's settings, in the order of its struct.
func WorkerSettings() []Setting { return settingsOf(reflect.TypeFor[Worker]()) }

// ProgramSettings describes the settings of a program that has its agent in Go: those of a worker, without the ones that choose
// an agent or start its programs.
func ProgramSettings() []Setting {
	chosen := settingsOf(reflect.TypeFor[AgentSettings]())
	kept := []string{"TURNSTILE_AGENT_TIMEOUT", "TURNSTILE_ASK_TIMEOUT", "TURNSTILE_APPROVERS"}
	return slices.DeleteFunc(WorkerSettings(), func(s Setting) bool {
		return strings.HasPrefix(s.Name, "TURNSTILE_AGENTS_") ||
			!slices.Contains(kept, s.Name) && slices.ContainsFunc(chosen, func(c Setting) bool { return c.Name == s.Name })
	})
}

// SenderSettings describes the sender's settings.
func SenderSettings() []Setting { return settingsOf(reflect.TypeFor[Sender]()) }

// GatewaySettings describes the gateway's settings.
func GatewaySettings() []Setting { return settingsOf(reflect.TypeFor[Gateway]()) }

func settingsOf(t reflect.Type) []Setting {
	var list []Setting
	for _, field := range reflect.VisibleFields(t) {
		if name := field.Tag.Get("env"); name != "" && name != "-" {
			s := Setting{
				Name:    name,
				Default: field.Tag.Get("envDefault"),
				Unit:    field.Tag.Get("unit"),
				Meaning: field.Tag.Get("help"),
				Secret:  field.Tag.Get("secret") == "true",
				File:    field.Tag.Get("file") == "true",
			}
			if field.Tag.Get("agree") != "" {
				s.Meaning += " Must be the same everywhere."
			}
			if s.File {
				s.Meaning += " " + fileName(name) + " names a file with it instead."
			}
			list = append(list, s)
		}
	}
	return list
}

// WriteHelp writes the settings for a terminal.
func WriteHelp(w io.Writer, settings []Setting) error {
	var b strings.Builder
	for _, s := range settings {
		value := s.Default
		if value == "" {
			value = "none"
		}
		fmt.Fprintf(&b, "  %s (%s; default %s)\n", s.Name, s.Unit, value)
		column := 0
		for word := range strings.FieldsSeq(s.Meaning) {
			switch {
			case column == 0:
				b.WriteString("      ")
				column = 6
			case column+1+len(word) > 80:
				b.WriteString("\n      ")
				column = 6
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown returns the settings as the table of docs/settings.md.
func Markdown(settings []Setting) string {
	var b strings.Builder
	b.WriteString("| variable | default | unit | meaning |\n|---|---|---|---|\n")
	for _, s := range settings {
		value := ""
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, value, cell(s.Unit), cell(s.Meaning))
	}
	return b.String()
}

// cell escapes Markdown in a table's cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text)
}

package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"

	"turnstile/internal/mcp"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/halves"
	"turnstile/pkg/session"
)

var gemini = program{
	env: []string{"GEMINI_*", "GOOGLE_*"},
	argv: func(command []string, model, resume string) []string {
		// Without -p, which would put the prompt into argv. It runs headless because stdin is not a
		// terminal.
		argv := append(append([]string{}, command...), "--output-format", "stream-json")
		if model != "" {
			argv = append(argv, "--model="+model)
		}
		if resume != "" {
			argv = append(argv, "--resume", resume)
		}
		return argv
	},
	// Its administrator's defaults, which all other settings replace. It replaces the references itself.
	servers: func(f *mcp.File) (options, env []string, err error) {
		return nil, append(f.Variables(), "GEMINI_CLI_SYSTEM_DEFAULTS_PATH="+f.Path), nil
	},
	// Headless it refuses to work in a directory that is not trusted.
	trust:     []string{"GEMINI_CLI_TRUST_WORKSPACE=true"},
	often:     "message",
	decoder:   func(s *stream) decoder { return &geminiLines{stream: s} },
	forgotten: []string{"Error resuming session"},
	mentions:  true,
	exits: map[int]string{
		41:  "could not log in: set GEMINI_API_KEY, and the way to log in with it in its settings",
		42:  "did not take the input",
		44:  "its sandbox failed",
		52:  "its settings are wrong",
		53:  "reached its limit of turns",
		55:  "does not trust the directory: set TURNSTILE_WORKSPACE_DIR, or GEMINI_CLI_TRUST_WORKSPACE=true",
		130: "was cancelled",
	},
}

// notRoots is a file, or a directory above it, that belongs to others than root or that others may write to. Empty: there
// is none. Gemini CLI takes its administrator's files from nowhere else.
func notRoots(path string) string {
	for up := ""; up != path; path, up = filepath.Dir(path), path {
		info, err := os.Stat(path)
		if err != nil {
			return path
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 || info.Mode()&0o022 != 0 {
			return path
		}
	}
	return ""
}

// geminiLines decodes Gemini CLI's stream-json.
type geminiLines struct{ *stream }

func (g *geminiLines) line(of string, data []byte) error {
	var l struct {
		SessionID  string          `json:"session_id"`
		Model      string          `json:"model"`
		Role       string          `json:"role"`
		Content    halves.Piece    `json:"content"`
		Delta      bool            `json:"delta"`
		ToolName   string          `json:"tool_name"`
		ToolID     string          `json:"tool_id"`
		Parameters json.RawMessage `json:"parameters"`
		Status     string          `json:"status"`
		Output     json.RawMessage `json:"output"`
		Message    string          `json:"message"`
		Error      struct {
			Message string `json:"message"`
		} `json:"error"`
		Stats geminiStats `json:"stats"`
	}
	if err := boundedjson.Unmarshal(data, &l); err != nil {
		return err
	}
	switch of {
	case "init":
		g.model = cmp.Or(l.Model, g.model)
		return g.session(l.SessionID)
	case "message":
		if l.Role == "user" {
			return nil // the prompt
		}
		if !l.Delta {
			g.paragraph()
		}
		g.text(g.words.Join(l.Content))
	case "tool_use":
		return g.toolStart(l.ToolID, l.ToolName, l.Parameters)
	case "tool_result":
		failure := ""
		if l.Status != "success" {
			failure = cmp.Or(l.Error.Message, plain(l.Output), "the tool failed")
		}
		return g.toolEnd(l.ToolID, l.Output, failure)
	case "error": // it continues, or the result has the error
		g.trouble = l.Message
		g.notice(l.Message)
	case "result":
		g.usage(l.Stats.usage(g.model))
		if l.Status == "success" {
			g.end("")
			return nil
		}
		g.end(cmp.Or(l.Error.Message, g.trouble, "it gave no reason"))
	default:
		g.raw(of, data)
	}
	return nil
}

type geminiStats struct {
	Total  int64                  `json:"total_tokens"`
	Input  int64                  `json:"input_tokens"` // includes the cached tokens
	Output int64                  `json:"output_tokens"`
	Cached int64                  `json:"cached"`
	Models map[string]geminiStats `json:"models"`
}

// usage is the usage of one turn. Only the total includes the thinking.
func (s geminiStats) usage(name string) session.Usage {
	if _, ok := s.Models[name]; !ok { // the program chose among several: take the one that worked most
		var most int64 = -1
		for other, m := range s.Models {
			if m.Total > most || m.Total == most && other < name {
				name, most = other, m.Total
			}
		}
	}
	return session.Usage{
		Model: name, InputTokens: s.Input, CachedTokens: s.Cached, OutputTokens: max(s.Output, s.Total-s.Input),
	}
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Secrets can come from files, as Docker and Kubernetes mount them.
func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"REDIS_URL_FILE":            secretFile(t, "redis://:secret@db/1\n"),
		"TURNSTILE_HTTP_TOKEN_FILE": secretFile(t, "token\r\n"),
		"TURNSTILE_MODEL_KEY_FILE":  secretFile(t, "key"),
		"OPENAI_API_KEY":            "not this", // TURNSTILE_MODEL_KEY has precedence
		"TURNSTILE_HTTP_ADDR":       ":8080",
	}
	w, err := LoadWorker(with(vars), Options{})
	if err != nil || w.RedisURL != "redis://:secret@db/1" || w.HTTPToken != "token" || w.ModelKey != "key" || !w.RedisURLSet {
		t.Errorf("%+v, %v", w, err)
	}
	s, err := LoadSender(with(vars), Options{})
	if err != nil || s.RedisURL != "redis://:secret@db/1" {
		t.Errorf("sender: %+v, %v", s, err)
	}
	// A flag overrides both variables.
	w, err = LoadWorker(with(vars), Options{Overrides: map[string]string{"REDIS_URL": "redis://flag"}})
	if err != nil || w.RedisURL != "redis://flag" {
		t.Errorf("with a flag: %q, %v", w.RedisURL, err)
	}
	for _, setting := range WorkerSettings() {
		_, tested := vars[setting.Name+"_FILE"]
		// Commands are secret but cannot come from a file: their words are on a command line anyway.
		command := setting.Unit == "command"
		if setting.File != tested || setting.Secret != (setting.File || command) {
			t.Errorf("%s: secret %v, file %v, and this test has one: %v", setting.Name, setting.Secret, setting.File, tested)
		}
	}
}

func TestInvalidSecretFiles(t *testing.T) {
	t.Parallel()
	const value = "hunter2"
	missing, dir := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	for name, c := range map[string]struct {
		vars map[string]string
		want string
	}{
		"both":             {map[string]string{"REDIS_URL": "redis://:" + value + "@db", "REDIS_URL_FILE": secretFile(t, "redis://db")}, "REDIS_URL_FILE is set, and REDIS_URL too: unset one of them"},
		"both tokens":      {map[string]string{"TURNSTILE_HTTP_TOKEN": value, "TURNSTILE_HTTP_TOKEN_FILE": missing}, "TURNSTILE_HTTP_TOKEN_FILE is set, and TURNSTILE_HTTP_TOKEN too: unset one of them"},
		"no such file":     {map[string]string{"REDIS_URL_FILE": missing}, "REDIS_URL_FILE cannot be used: open " + missing + ": no such file or directory"},
		"a directory":      {map[string]string{"TURNSTILE_HTTP_TOKEN_FILE": dir}, "TURNSTILE_HTTP_TOKEN_FILE cannot be used: read " + dir + ": is a directory"},
		"empty":            {map[string]string{"TURNSTILE_HTTP_TOKEN_FILE": secretFile(t, "\n")}, "is empty: write the value into it"},
		"several lines":    {map[string]string{"TURNSTILE_MODEL_KEY_FILE": secretFile(t, value+"\n"+value+"\n")}, "has more than one line"},
		"too long":         {map[string]string{"TURNSTILE_HTTP_TOKEN_FILE": secretFile(t, strings.Repeat("x", maxSecretLen+1))}, "has more than 65536 bytes"},
		"a malformed URL":  {map[string]string{"REDIS_URL_FILE": secretFile(t, "gopher://"+value)}, "setting REDIS_URL cannot be used: malformed Redis URL"},
		"an unfit token":   {map[string]string{"TURNSTILE_HTTP_TOKEN_FILE": secretFile(t, value+" "+value)}, "TURNSTILE_HTTP_TOKEN has characters"},
		"of no secret":     {map[string]string{"TURNSTILE_TOOLS_FILE_FILE": missing}, "TURNSTILE_TOOLS_FILE_FILE is unknown"},
		"of the command":   {map[string]string{"TURNSTILE_AGENT_COMMAND_FILE": missing}, "TURNSTILE_AGENT_COMMAND_FILE is unknown"},
		"given to agents":  {map[string]string{"TURNSTILE_AGENT_ENV": "REDIS_URL_FILE"}, "names REDIS_URL_FILE, which agents must not have"},
		"an open address":  {map[string]string{"TURNSTILE_HTTP_ADDR": ":8080", "TURNSTILE_HTTP_TOKEN_FILE": missing}, "TURNSTILE_HTTP_TOKEN_FILE cannot be used"},
		"beside a setting": {map[string]string{"TURNSTILE_CONCURRENCY": "3", "TURNSTILE_HTTP_TOKEN_FILE": missing}, "TURNSTILE_HTTP_TOKEN_FILE cannot be used"},
	} {
		_, err := LoadWorker(with(c.vars), Options{})
		if got := lines(t, err); len(got) != 1 || !strings.Contains(got[0], c.want) || strings.Contains(got[0], value) {
			t.Errorf("%s: got %q, want one line with %q and no secret", name, got, c.want)
		}
	}
	if _, err := LoadSender([]string{"REDIS_URL_FILE=" + missing}, Options{}); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "\n") {
		t.Errorf("sender: %v", err)
	}
}

func TestSecretFlag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting, value string
		warns          bool
	}{
		{"TURNSTILE_HTTP_TOKEN", "x", true},
		{"TURNSTILE_HTTP_TOKEN", "", false},
		{"TURNSTILE_MODEL_KEY", "x", true},
		{"TURNSTILE_AGENT_COMMAND", "agent --key x", false}, // the agent's own command line shows it
		{"TURNSTILE_MODEL", "x", false},
		{"REDIS_URL", "redis://db:6379/0", false},
		{"REDIS_URL", "gopher://:x@db", false}, // refused anyway
		{"REDIS_URL", "redis://:x@db:6379/0", true},
		{"REDIS_URL", "redis://user:x@db:6379/0", true},
		{"REDIS_URL", "redis-sentinel://a,b?master=m&sentinel_password=x", true},
		{"REDIS_URL", "redis-sentinel://a,b?master=m", false},
	} {
		got := SecretFlag("flag", c.setting, c.value)
		if (got != "") != c.warns || c.warns && (!strings.Contains(got, "--flag ") || !strings.Contains(got, c.setting+"_FILE")) || strings.Contains(got, "\n") {
			t.Errorf("%s=%s: %q", c.setting, c.value, got)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"turnstile/internal/version"
)

// nowhere is a Redis that does not exist: a call that tries to connect exits with 1.
const nowhere = "redis://127.0.0.1:1/0"

func TestBadUsageIsSaidBeforeConnecting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := strings.Repeat("x", 2<<20+1)
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"nothing":               {nil, "", "no session"},
		"no session":            {[]string{"hello"}, "", "-s SESSION"},
		"empty session":         {[]string{"-s", "", "hello"}, "", "session key"},
		"bad session":           {[]string{"-s", "a/b", "hello"}, "", "session key"},
		"long session":          {[]string{"-s", strings.Repeat("a", 257), "hello"}, "", "257 characters"},
		"bad id":                {[]string{"-s", "a", "--id", "x y", "hello"}, "", "message id"},
		"empty id":              {[]string{"-s", "a", "--id", "", "hello"}, "", "message id"},
		"long id":               {[]string{"-s", "a", "--id", strings.Repeat("a", 129), "hello"}, "", "129 characters"},
		"no text":               {[]string{"-s", "a"}, "", "no TEXT"},
		"empty text":            {[]string{"-s", "a", ""}, "", "text is empty"},
		"blank text":            {[]string{"-s", "a", " ", "\t"}, "", "text is empty"},
		"empty stdin":           {[]string{"-s", "a", "-"}, "\n", "text is empty"},
		"long text":             {[]string{"-s", "a", big}, "", "has 2097153 bytes, at most 2097152 are allowed; put an attachment into a --file line"},
		"long stdin":            {[]string{"-s", "a", "-"}, big, "2097152"},
		"endless stdin":         {[]string{"-s", "a", "-"}, big + big, "more than 2097152 bytes, at most 2097152 are allowed; put an attachment into a --file line"},
		"not UTF-8":             {[]string{"-s", "a", "-"}, "a\xffb", "UTF-8"},
		"unknown mode":          {[]string{"-s", "a", "--mode", "steal", "hello"}, "", "use queue, collect, steer, interrupt, rollback or reject"},
		"negative in":           {[]string{"-s", "a", "--in", "-1s", "hello"}, "", "negative"},
		"negative expires-in":   {[]string{"-s", "a", "--expires-in", "-1s", "hello"}, "", "negative"},
		"duration without unit": {[]string{"-s", "a", "--in", "5", "hello"}, "", `"--in" flag: invalid duration "5": write it as 500ms`},
		"meta without =":        {[]string{"-s", "a", "--meta", "k", "hello"}, "", "k=v"},
		"meta without key":      {[]string{"-s", "a", "--meta", "=v", "hello"}, "", "k=v"},
		"meta twice":            {[]string{"-s", "a", "--meta", "k=1", "--meta", "k=2", "hello"}, "", "twice"},
		"wait and follow":       {[]string{"-s", "a", "--wait", "--follow", "hello"}, "", "both --wait and --follow"},
		"timeout alone":         {[]string{"-s", "a", "--timeout", "1s", "hello"}, "", "--timeout needs"},
		"timeout 0":             {[]string{"-s", "a", "--wait", "--timeout", "0", "hello"}, "", "above 0"},
		"negative timeout":      {[]string{"-s", "a", "--wait", "--timeout", "-1s", "hello"}, "", "above 0"},
		"after alone":           {[]string{"-s", "a", "--id", "m", "--after", "1-0", "hello"}, "", "--after needs --follow"},
		"after and wait":        {[]string{"-s", "a", "--id", "m", "--wait", "--after", "1-0", "hello"}, "", "--after needs --follow"},
		"after without id":      {[]string{"-s", "a", "--follow", "--after", "1-0", "hello"}, "", "--after needs the --id"},
		"after and file":        {[]string{"--file", "m.jsonl", "--follow", "--after", "1-0"}, "", "--after with --file"},
		"after and mode":        {[]string{"-s", "a", "--id", "m", "--follow", "--after", "1-0", "--mode", "queue"}, "", "--after sends nothing"},
		"after and reply-to":    {[]string{"-s", "a", "--id", "m", "--follow", "--after", "1-0", "--reply-to", "bot"}, "", "--after sends nothing"},
		"reply-to empty":        {[]string{"-s", "a", "--reply-to", "", "hello"}, "", "--reply-to is empty: name a destination, or - for none"},
		"reply-to wrong":        {[]string{"-s", "a", "--reply-to", "a b", "hello"}, "", `invalid destination "a b"`},
		"reply-to long":         {[]string{"-s", "a", "--reply-to", strings.Repeat("a", 65)}, "", "use up to 64"},
		"reply-to, no session":  {[]string{"--reply-to", "bot"}, "", "no session"},
		"reply-to and wait":     {[]string{"-s", "a", "--reply-to", "bot", "--wait"}, "", "no TEXT: --reply-to without one sets the session's destination"},
		"reply-to and context":  {[]string{"-s", "a", "--reply-to", "bot", "--context", "1"}, "", "takes only -s, --json and --redis"},
		"context alone":         {[]string{"-s", "a", "--context", "1"}, "", "no TEXT"},
		"context empty":         {[]string{"-s", "a", "--context", "", "hello"}, "", "--context is empty"},
		"context, no JSON":      {[]string{"-s", "a", "--context", "{chat:1}", "hello"}, "", "invalid context: it is no JSON"},
		"context, long":         {[]string{"-s", "a", "--context", `"` + strings.Repeat("x", 2047) + `"`, "hello"}, "", "2049 bytes, at most 2048"},
		"after nothing":         {[]string{"-s", "a", "--id", "m", "--follow", "--after", ""}, "", "event id"},
		"after no event":        {[]string{"-s", "a", "--id", "m", "--follow", "--after", "m1"}, "", `invalid event id "m1": it has the form`},
		"unknown flag":          {[]string{"-s", "a", "--colour", "hello"}, "", "after --"},
		"text like a flag":      {[]string{"-s", "a", "-x"}, "", "after --"},
		"text and file":         {[]string{"--file", "m.jsonl", "hello"}, "", "both --file and a TEXT"},
		"id and file":           {[]string{"--file", "m.jsonl", "--id", "x"}, "", "--id with --file"},
		"empty file name":       {[]string{"--file", ""}, "", "names no file"},
		"no such file":          {[]string{"--file", filepath.Join(dir, "none")}, "", "no such file"},
		"directory":             {[]string{"--file", dir}, "", "directory"},
		"URL without scheme":    {[]string{"-s", "a", "--redis", "localhost", "hello"}, "", "REDIS_URL"},
		"URL of another kind":   {[]string{"-s", "a", "--redis", "http://localhost", "hello"}, "", "scheme"},
		"empty URL":             {[]string{"-s", "a", "--redis", "", "hello"}, "", "--redis is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enqueue(t, context.Background(), nowhere, c.stdin, c.args...).want(t, exitUsage)
			r.oneLine(t, c.want)
			if r.out != "" {
				t.Errorf("stdout: %q", r.out)
			}
		})
	}
}

func TestBadSettingsAreUsage(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	code := run(context.Background(), []string{"-s", "a", "hello"}, nil, &out, &stderr, []string{"REDIS_URL=localhost"})
	result{code, out.String(), stderr.String()}.want(t, exitUsage).oneLine(t, "REDIS_URL")
}

func TestAPasswordIsNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://u:sesame@", "redis://u:sesame@127.0.0.1:1/0", "redis:/u:sesame@h"} {
		r := enqueue(t, context.Background(), nowhere, "", "-s", "a", "--redis", url, "hello")
		if r.code == exitOK || strings.Contains(r.out+r.err, "sesame") {
			t.Errorf("%q: exit code %d, stderr %q", url, r.code, r.err)
		}
	}
}

// The invalid flag may precede --json.
func TestUsageErrorsAsObjects(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--json", "hello"}, {"--nonsense", "--json"}} {
		r := enqueue(t, context.Background(), nowhere, "", args...).want(t, exitUsage)
		r.oneLine(t)
		list := r.objects(t)
		if len(list) != 1 || text(list[0], "error") == "" || list[0]["code"] != 2.0 {
			t.Errorf("%v: stdout %q", args, r.out)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	r := enqueue(t, context.Background(), nowhere, "", "--help").want(t, exitOK)
	for _, word := range []string{
		"Exit codes", "Examples:", "REDIS_URL", "--session", "--id", "--mode", "--in", "--expires-in", "--meta", "--wait",
		"--reply-to", "--context", "--follow", "--after", "event_id", "--timeout", "--json", "--file", "--redis",
	} {
		if !strings.Contains(r.out, word) {
			t.Errorf("help lacks %q", word)
		}
	}
	if r := enqueue(t, context.Background(), nowhere, "", "--version").want(t, exitOK); !strings.HasPrefix(r.out, "enqueue version "+version.Number) {
		t.Errorf("version: %q", r.out)
	}
}

// docs/commands.md has a row and an example for every command and every mode.
func TestCommandsPageIsComplete(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	url, _ := newRedis(t)
	names := []string{"queue", "collect", "steer", "interrupt", "rollback", "reject"}
	for line := range strings.Lines(enqueue(t, bg(t), url, "", "-s", "a", "/help").want(t, exitOK).out) {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "/") {
			names = append(names, name)
		}
	}
	if len(names) < 15 {
		t.Fatalf("/help lists only %q", names)
	}
	for _, name := range names {
		if !bytes.Contains(page, []byte("\n| `"+name)) {
			t.Errorf("docs/commands.md has no row for %s", name)
		}
		example := " --mode " + name + " "
		if strings.HasPrefix(name, "/") {
			example = " " + name
		}
		if !regexp.MustCompile(`(?m)^go run ./cmd/enqueue .*` + regexp.QuoteMeta(example)).Match(page) {
			t.Errorf("docs/commands.md has no example for %s", name)
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "messages.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProgressInWords(t *testing.T) {
	t.Parallel()
	half := "[===============               ]  50% "
	for _, c := range []struct {
		p    *progress
		took time.Duration
		want string
	}{
		{&progress{size: 100, read: 50, in: 7}, time.Second, half + "7 sent"},
		{&progress{size: 100, read: 50, in: 7, waits: true, results: 2}, 10 * time.Second, "7 sent, 2 results"},
		{&progress{size: 100, read: 50, in: 7}, 10 * time.Second, half + "7 sent, about 10s left"},
		{&progress{size: -1, read: 50, in: 7}, time.Hour, "7 sent"},
		{&progress{size: 0, waits: true}, 0, "0 sent, 0 results"},
		{&progress{size: 100, read: 150, in: 7}, time.Minute, "[==============================] 100% 7 sent"},
		{&progress{size: 100, read: 100, in: 7, whole: true, waits: true, waited: 4, results: 2}, 0, half + "2 of 4 results"},
		{&progress{whole: true, waits: true, waited: 4, results: 1, left: 1}, time.Minute, half + "1 of 4 results, 1 without one, about 1m0s left"},
		{&progress{whole: true, waits: true, waited: 1000, results: 999}, time.Minute, "[============================= ]  99% 999 of 1000 results, about 1s left"},
		{&progress{size: 9, whole: true, waits: true}, time.Minute, "0 of 0 results"},
	} {
		if got := c.p.text(c.took); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

// A message beyond a limit is bad input, and a full queue is a refusal. Both store nothing. The
// limits are settings.
func TestLimits(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	enqueue(t, bg(t), url, "", "-s", "a", "--meta", "k="+strings.Repeat("x", 2<<20), "hello").want(t, exitUsage).
		oneLine(t, "bytes in JSON, at most 2097152 are allowed")
	long := `{"session":"a","text":"x","attachments":[{"name":"` + strings.Repeat("x", 2<<20) + `","url":"u"}]}`
	enqueue(t, bg(t), url, long, "--file", "-").want(t, exitUsage)
	t.Run("settings", func(t *testing.T) {
		environ := []string{"REDIS_URL=" + url, "TURNSTILE_MESSAGE_BYTES=1024", "TURNSTILE_LINE_CAP=1"}
		call := func(args ...string) (code int, out, err string) {
			var o, e strings.Builder
			code = run(bg(t), args, strings.NewReader(""), &o, &e, environ)
			return code, o.String(), e.String()
		}
		if code, _, err := call("-s", "a", strings.Repeat("x", 1025)); code != exitUsage || !strings.Contains(err, "at most 1024 are allowed") {
			t.Errorf("a long text: %d %q", code, err)
		}
		if n := len(rdb.Keys(bg(t), "*").Val()); n != 0 {
			t.Errorf("%d keys", n)
		}
		if code, _, err := call("-s", "a", "first"); code != exitOK {
			t.Errorf("the first: %d %q", code, err)
		}
		code, out, err := call("-s", "a", "--json", "second")
		if code != exitRefused || !strings.Contains(out, `"reason":"line"`) || !strings.Contains(err+out, "refused") {
			t.Errorf("the second: %d %q %q", code, out, err)
		}
	})
}

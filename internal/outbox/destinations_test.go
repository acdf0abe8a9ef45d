package outbox

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile/test/expect"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestDestinations(t *testing.T) {
	t.Parallel()
	all, err := ParseDestinations([]byte(`[
		{"name": "bot", "url": "https://bot.example/hook?a=1", "secrets": ["` + testSecret + `"], "sessions": ["telegram:*", "demo"]},
		{"name": "lab", "url": "http://lab.internal:8000/", "secrets": ["` + testSecret + `", "whsec_` + strings.Repeat("AAAA", 21) + `AA=="],
		 "sessions": ["*"], "max_age": "1h", "private": true},
		{"name": "never", "url": "https://never.example/", "secrets": ["` + testSecret + `"]}
	]`))
	expect.OK(t, err)
	expect.List(t, "the names", all.Names(), "bot", "lab", "never")
	for key, want := range map[string]string{"telegram:42": "bot", "demo": "bot", "demo2": "lab", "x": "lab"} {
		expect.Equal(t, "the destination of "+key, all.Routes().For(key), want)
	}
	lab := all.Named("lab")
	if lab.MaxAge != time.Hour || !lab.Private || len(lab.signers) != 2 || all.Named("bot").MaxAge != 72*time.Hour || all.Named("nobody") != nil {
		t.Errorf("lab is %+v", lab)
	}
	none, err := ParseDestinations([]byte(`[]`))
	expect.OK(t, err)
	expect.Equal(t, "the destination without any", none.Routes().For("x"), "")
}

func TestDestinationsRefused(t *testing.T) {
	t.Parallel()
	const good = `"name": "bot", "url": "https://bot.example/", "secrets": ["` + testSecret + `"]`
	for text, want := range map[string]string{
		`{}`:                               `write a list of {"name", "url", "secrets"}`,
		`[{` + good + `}] x`:               "more than one value",
		`[{` + good + `, "max-age": "1"}]`: `unknown field "max-age"`,
		`[{"name": "A b", "url": "https://b.example", "secrets": ["` + testSecret + `"]}]`:                `destination 1 ("A b") has no usable name`,
		`[{` + good + `}, {` + good + `}]`:                                                                `destination 2 ("bot") is there twice`,
		`[{"name": "bot", "url": "https://b.example"}]`:                                                   "has no secrets: add one",
		`[{` + good + `, "secrets": ["` + testSecret + `", "` + testSecret + `", "` + testSecret + `"]}]`: "has 3 secrets",
		`[{` + good + `, "secrets": ["hunter2"]}]`:                                                        "has a secret 1 that cannot be used",
		`[{` + good + `, "secrets": ["whsec_aHVudGVyMg=="]}]`:                                             "has a secret 1 that cannot be used", // too short
		`[{` + good + `, "secrets": ["whsec_` + strings.Repeat("A", 33) + `"]}]`:                          "has a secret 1 that cannot be used", // no base64
		`[{` + good + `, "secrets": ["whsec_` + strings.Repeat("AAAA", 30) + `"]}]`:                       "has a secret 1 that cannot be used", // too long
		`[{` + good + `, "url": "bot.example"}]`:                                                          "has no usable url",
		`[{` + good + `, "url": "ftp://bot.example"}]`:                                                    "has no usable url",
		`[{` + good + `, "url": "http://bot.example"}]`:                                                   "has an http:// url: use https://",
		`[{` + good + `, "url": "https://me:hunter2@bot.example"}]`:                                       "has a password in its url",
		`[{` + good + `, "url": "https://bot.example/#a"}]`:                                               "has a fragment",
		`[{` + good + `, "sessions": ["["]}]`:                                                             `has the pattern "["`,
		`[{` + good + `, "sessions": ["a/*"]}]`:                                                           `has the pattern "a/*"`,
		`[{` + good + `, "sessions": [""]}]`:                                                              `has the pattern ""`,
		`[{` + good + `, "max_age": "3"}]`:                                                                `has max_age "3"`,
		`[{` + good + `, "max_age": "1s"}]`:                                                               "at least 1m",
	} {
		_, err := ParseDestinations([]byte(text))
		switch {
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v; want %s", text, err, want)
		case strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: %q has several lines or a secret", text, err)
		}
	}
	_, err := ParseDestinations([]byte(`[{"name": "A"}, {"name": "B"}]`))
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 6 {
		t.Errorf("%d problems of 6: %v", lines, err)
	}
}

// A file that was broken by an edit changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "destinations.json")
	write := func(name string) {
		expect.OK(t, os.WriteFile(path, []byte(`[{"name": "`+name+`", "url": "https://b.example", "secrets": ["`+testSecret+`"]}]`), 0o600))
	}
	if _, err := OpenFile(path); err == nil {
		t.Error("a missing file is no error")
	}
	write("one")
	f, err := OpenFile(path)
	expect.OK(t, err)
	write("two")
	expect.List(t, "before the reload", f.Current().Names(), "one")
	expect.OK(t, f.Reload())
	expect.List(t, "after it", f.Current().Names(), "two")
	write("Three")
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v", err)
	}
	expect.List(t, "after a broken one", f.Current().Names(), "two")
}

// A file that is followed is read whenever it changes, also by being replaced. A mistake in it changes
// nothing, and is logged once.
func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "destinations.json")
	write := func(name string) {
		next := path + ".new"
		expect.OK(t, os.WriteFile(next, []byte(`[{"name": "`+name+`", "url": "https://b.example", "secrets": ["`+testSecret+`"]}]`), 0o600))
		expect.OK(t, os.Rename(next, path))
	}
	write("one")
	f, err := OpenFile(path)
	expect.OK(t, err)
	said := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() {
		f.follow(ctx, time.Millisecond, slog.New(slog.NewTextHandler(lines(said), nil)))
	})
	t.Cleanup(over.Wait)
	t.Cleanup(cancel)
	says := func(part string) {
		t.Helper()
		if line := expect.Received(t, "a line", said); !strings.Contains(line, part) {
			t.Errorf("%s; want %s", line, part)
		}
	}
	for _, name := range []string{"two", "three"} {
		write(name)
		says("[" + name + "]")
		expect.List(t, "the names", f.Current().Names(), name)
	}
	write("Four")
	says("has no usable name")
	expect.List(t, "after a mistake", f.Current().Names(), "three")
	expect.OK(t, os.Remove(path))
	says("no such file")
	write("three") // as it was before the mistake
	says("[three]")
	write("five")
	says("[five]")
	expect.Equal(t, "further lines", len(said), 0)
}

// lines are the lines of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

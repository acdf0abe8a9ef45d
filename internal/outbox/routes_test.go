package outbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

const routesFile = `[{"name": "bot", "url": "https://bot.example/hook", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["PATTERN"]}]`

// All gateways route alike while their files differ: by the file that one of them has seen changing, else
// by the one that they had. A gateway that starts with another one follows, and its own decides when
// nobody has the old one any longer. Another secret or address makes no difference.
func TestGatewaysRouteByOneFile(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	const every = time.Minute
	folder := t.TempDir()
	write := func(name, pattern string) (path string) {
		path = filepath.Join(folder, name)
		expect.OK(t, os.WriteFile(path, []byte(strings.ReplaceAll(routesFile, "PATTERN", pattern)), 0o600))
		return path
	}
	open := func(name, pattern string) *File {
		f, err := OpenFile(write(name, pattern))
		expect.OK(t, err)
		return f
	}
	// round lets the gateways share in turn. It returns the patterns by which each routes, and which files
	// differ.
	round := func(files ...*File) (now string) {
		for _, f := range files {
			expect.OK(t, f.share(t.Context(), rdb, every))
		}
		for _, f := range files {
			now += fmt.Sprintf("%s %v; ", f.Routes()[0].Sessions[0], f.Differs())
		}
		return now
	}
	one := open("one", "web:*")
	two := open("two", "web:*")
	expect.Equal(t, "with one file", round(one, two), "web:* false; web:* false; ")

	write("one", "tg:*")
	expect.OK(t, one.Reload())
	expect.Equal(t, "before it is shared", one.Routes().For("tg:1")+two.Routes().For("tg:1"), "bot")
	expect.Equal(t, "a file changes", round(one, two), "tg:* false; tg:* true; ")
	expect.Equal(t, "for", two.Routes().For("tg:1")+two.Routes().For("web:1"), "bot")
	write("two", "tg:*")
	expect.OK(t, two.Reload())
	expect.Equal(t, "the other changes, too", round(two, one), "tg:* false; tg:* false; ")

	late := open("late", "old:*")
	expect.Equal(t, "one starts with another file", round(late, one), "tg:* true; tg:* false; ")
	expect.OK(t, rdb.Del(t.Context(), rediskey.Routes).Err()) // as when it expires
	expect.Equal(t, "nobody has the shared file", round(late), "old:* false; ")
	expect.Equal(t, "it comes back", round(one, late), "old:* true; old:* false; ")

	expect.OK(t, rdb.Set(t.Context(), rediskey.Routes, "[", 0).Err())
	expect.Equal(t, "what is stored is none", round(one, late), "tg:* false; tg:* true; ")
	if ttl := rdb.PTTL(t.Context(), rediskey.Routes).Val(); ttl <= 0 || ttl > 5*every {
		t.Errorf("it is kept for %s", ttl)
	}
	expect.Equal(t, "secrets in Redis", strings.Contains(rdb.Get(t.Context(), rediskey.Routes).Val(), "whsec"), false)
}

// A gateway without a file has no say, and follows those that have one for as long as there are any.
func TestGatewayWithoutAFileFollows(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	path := filepath.Join(t.TempDir(), "file")
	expect.OK(t, os.WriteFile(path, []byte(strings.ReplaceAll(routesFile, "PATTERN", "web:*")), 0o600))
	file, err := OpenFile(path)
	expect.OK(t, err)
	none := NoFile()
	for _, c := range []struct {
		when  string
		do    func()
		to    string
		known bool
	}{
		{"nobody has a file", func() {}, "", false},
		{"another has one", func() { expect.OK(t, file.Share(t.Context(), rdb)) }, "bot", true},
		{"nobody has it any more", func() { expect.OK(t, rdb.Del(t.Context(), rediskey.Routes).Err()) }, "", false}, // as when it expires
	} {
		c.do()
		expect.OK(t, none.Share(t.Context(), rdb))
		expect.Equal(t, "to, when "+c.when, none.Routes().For("web:1"), c.to)
		expect.Equal(t, "known, when "+c.when, none.Known(), c.known)
		expect.Equal(t, "differs, when "+c.when, none.Differs(), false)
	}
	expect.Equal(t, "what is stored by it", rdb.Exists(t.Context(), rediskey.Routes).Val(), 0)
}

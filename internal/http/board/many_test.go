package board_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent/echo"
	"turnstile/test/browser"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// many makes n idle sessions, the last one the newest, as they are after their first turn.
func (r *rig) many(n int) {
	r.Helper()
	now := time.Now().UnixMilli()
	for from := 0; from < n; from += 1000 {
		_, err := r.redis.Pipelined(r.Context(), func(p redis.Pipeliner) error {
			for i := from; i < min(from+1000, n); i++ {
				key := fmt.Sprintf("web:%06d", i)
				p.ZAdd(r.Context(), rediskey.Sessions, redis.Z{Score: float64(now - int64(n-i)*1000), Member: key})
				p.ZAdd(r.Context(), rediskey.Names, redis.Z{Member: key})
				p.SAdd(r.Context(), rediskey.AllQueues, rediskey.Queue(key))
				p.HSet(r.Context(), rediskey.For(key).Record(), "session_id", "20261122-000000-aaaaaaaaaa", "title", fmt.Sprintf("Conversation %d", i))
				p.HSet(r.Context(), rediskey.For(key).Run(), "fence", now, "sid", "20261122-000000-aaaaaaaaaa", "entries", 2)
			}
			return nil
		})
		expect.OK(r, err)
	}
}

// commands counts a client's commands and round trips.
type commands struct{ commands, trips atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		c.trips.Add(1)
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.commands.Add(int64(len(cmds)))
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}

// The first page costs the same with 30 sessions and with 100,000.
func TestFirstPageOfManySessions(t *testing.T) {
	expect.Unraced(t)
	if testing.Short() {
		t.Skip("makes 100,000 sessions")
	}
	t.Parallel()
	redistest.Real(t)
	cost := map[int]int64{}
	for _, n := range []int{60, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t)
			r.many(n)
			r.has(r.get("/board/"), 200) // scripts and connections
			var c commands
			r.redis.AddHook(&c)
			for _, path := range []string{"/board/", "/board/?state=attention", "/board/?prefix=web:0000", "/board/?prefix=nobody"} {
				c.commands.Store(0)
				c.trips.Store(0)
				started := time.Now()
				p := r.get(path)
				took := time.Since(started)
				r.has(p, 200)
				t.Logf("%d sessions, %s: %s, %d commands in %d round trips, %d bytes", n, path, took.Round(100*time.Microsecond), c.commands.Load(), c.trips.Load(), len(p.text))
				if path == "/board/" {
					cost[n] = c.commands.Load()
				}
			}
			if n == 100_000 {
				r.photographTheEnd()
			}
		})
	}
	expect.Equal(t, "commands with 100,000 sessions", cost[100_000], cost[60])
}

// The link to the next page names no session that the visitor may not see.
func TestNextPageNamesNobodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, reader)
	for i := range 60 {
		for _, key := range []string{fmt.Sprintf("secret:%02d", i), fmt.Sprintf("web:%02d", i)} {
			_, err := r.client.Session(key).Send(t.Context(), turnstile.Message{Text: "hi"})
			expect.OK(t, err)
		}
	}
	r.has(r.login("reader"), 200)
	rows, pages := 0, 0
	for link := "/board/"; link != ""; pages++ {
		p := r.get(link)
		r.has(p, 200)
		if strings.Contains(p.text, "secret") {
			t.Fatalf("the page %s names another session: %s", link, p.text)
		}
		rows += strings.Count(p.text, `href="/board/s/web:`)
		_, next, _ := strings.Cut(p.text, `href="/board/?cursor=`)
		if link = ""; next != "" {
			cursor, _, _ := strings.Cut(next, `"`)
			named, err := url.QueryUnescape(html.UnescapeString(cursor))
			expect.OK(t, err)
			if decoded, _ := base64.RawURLEncoding.DecodeString(named[strings.Index(named, ".")+1:]); strings.Contains(named+string(decoded), "secret") {
				t.Fatalf("the cursor of page %d is %s", pages, named)
			}
			link = "/board/?cursor=" + html.UnescapeString(cursor)
		}
	}
	if rows < 60 || pages < 2 {
		t.Errorf("%d rows on %d pages", rows, pages)
	}
}

// photographTheEnd takes the picture of a page after the first one, for docs/board.md.
func (r *rig) photographTheEnd() {
	p := browser.Open(r.T)
	r.workerOf(echo.New())
	p.Size(1100, 700)
	p.Goto(r.url + "/board/?prefix=web:0999")
	p.Await(`document.querySelectorAll("tr[data-row]").length > 9 && document.querySelector(".overview").textContent.includes("on 1 worker")`)
	expect.Equal(r, "wider than the window", p.Eval("document.documentElement.scrollWidth > innerWidth"), "false")
	p.Shoot(filepath.Join(cmp.Or(os.Getenv("TURNSTILE_PICTURES"), r.TempDir()), "board-many.png"))
}

package outbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

const routesFile = `[{"name": "bot", "url": "https://bot.example/hook", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["PATTERN"]}]`

// Two gateways of which one did not get the new file both say so, and no longer when it has it. Another
// secret makes no difference, and a file that has just changed makes none yet.
func TestGatewaysWithDifferentDestinations(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	const every = 100 * time.Millisecond
	path := func(name string) string { return filepath.Join(t.TempDir(), name) }
	paths := []string{path("one"), path("two")}
	write := func(i int, text, old, now string) {
		expect.OK(t, os.WriteFile(paths[i], []byte(strings.ReplaceAll(text, old, now)), 0o600))
	}
	var files []*File
	for i := range paths {
		write(i, routesFile, "PATTERN", "web:*")
		f, err := OpenFile(paths[i])
		expect.OK(t, err)
		files = append(files, f)
	}
	round := func() (differ int) {
		for _, f := range files {
			expect.OK(t, f.compare(t.Context(), rdb, every))
			if f.Differs() {
				differ++
			}
		}
		return differ
	}
	end := time.Now().Add(3 * every)
	for time.Now().Before(end) {
		expect.Equal(t, "gateways that differ with one file", round(), 0)
	}
	write(0, strings.ReplaceAll(routesFile, "bot.example", "new.example"), "PATTERN", "web:*")
	expect.OK(t, files[0].Reload())
	expect.Equal(t, "with another address", round()+round(), 0)
	expect.Equal(t, "routes", rdb.HLen(t.Context(), rediskey.Routes).Val(), 1)

	write(0, routesFile, "PATTERN", "tg:*")
	expect.OK(t, files[0].Reload())
	expect.Equal(t, "just after the change", files[0].Differs(), false)
	expect.Soon(t, "both see it", func() bool { return round() == 2 })
	write(1, routesFile, "PATTERN", "tg:*")
	expect.OK(t, files[1].Reload())
	expect.Soon(t, "neither sees it", func() bool { return round() == 0 })
	expect.Soon(t, "the old routes are forgotten", func() bool {
		expect.Equal(t, "gateways that differ", round(), 0)
		return rdb.HLen(t.Context(), rediskey.Routes).Val() == 1
	})
}

package main

import (
	"strings"
	"testing"
)

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

package explore

import (
	"fmt"
	"strings"
	"time"
)

// checkTTL: a key that a command has written expires by its setting, or not at all.
const checkTTL = "ttl"

// lives is for how long keys live, by what their names have behind the session. Others do not expire.
// Each is the default of its setting: a process with other settings leaves the check out.
var lives = []struct {
	part string
	most time.Duration
}{
	{"}:sentinel", 15 * time.Second},
	{"}:partial", 30 * 24 * time.Hour},
	{"}:state", 30 * 24 * time.Hour},
	{"}:transcript:", 30 * 24 * time.Hour},
	{"}:call:", 5 * time.Minute},
	{"}:idem:", 24 * time.Hour},
}

// ttl compares the keys that a command has written.
func (s *Search) ttl(before, after *snapshot) string {
	if s.leftOut(checkTTL) || before == after {
		return ""
	}
	was := before.keys
	for _, v := range after.keys {
		for len(was) > 0 && was[0] != v && was[0].key < v.key {
			was = was[1:]
		}
		if len(was) > 0 && was[0] == v || !strings.HasPrefix(v.key, "turnstile:{") {
			continue
		}
		most := settingOf(v.key).Milliseconds()
		switch left := v.expires - after.now; {
		case v.expires == 0 && most > 0:
			return fmt.Sprintf("%s: %s never expires", checkTTL, v.key)
		case v.expires != 0 && most == 0:
			return fmt.Sprintf("%s: %s expires in %d ms", checkTTL, v.key, left)
		case v.expires != 0 && left > most:
			return fmt.Sprintf("%s: %s expires in %d ms, at most %d are right", checkTTL, v.key, left, most)
		}
	}
	return ""
}

func settingOf(key string) time.Duration {
	for _, l := range lives {
		if strings.Contains(key, l.part) {
			return l.most
		}
	}
	return 0
}

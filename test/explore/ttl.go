package explore

import (
	"fmt"
	"strings"
	"time"
)

// checkTTL: a key that a command has written expires by its setting, neither later nor sooner, or not
// at all.
const checkTTL = "ttl"

// lives is how long keys live, by the part of their names after the session. Others do not expire.
// Each is the default of its setting: a configuration with other settings leaves the check out.
var lives = []struct {
	part string
	life time.Duration
}{
	{"}:sentinel", 15 * time.Second},
	{"}:journal", 30 * 24 * time.Hour},
	{"}:state", 30 * 24 * time.Hour},
	{"}:audit", 30 * 24 * time.Hour},
	{transcript, 30 * 24 * time.Hour},
	{"}:call:", 5 * time.Minute},
	{"}:idem:", 24 * time.Hour},
}

const transcript = "}:transcript:"

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
		var old *value
		if len(was) > 0 && was[0].key == v.key {
			old = was[0]
		}
		life := (settingOf(v.key) - aged(v.key)).Milliseconds()
		switch left := v.expires - after.now; {
		case v.expires == 0 && life > 0:
			return fmt.Sprintf("%s: %s never expires", checkTTL, v.key)
		case v.expires != 0 && life == 0:
			return fmt.Sprintf("%s: %s expires in %d ms", checkTTL, v.key, left)
		case left != life && life > 0 && !keeps(old, v):
			return fmt.Sprintf("%s: %s expires in %d ms, want %d", checkTTL, v.key, left, life)
		}
	}
	return ""
}

// keeps reports whether a command may write a key and leave its TTL unchanged: a journal, unless its owner writes, or a
// transcript, unless it gets a turn's last entries.
func keeps(was, v *value) bool {
	if was == nil || was.expires != v.expires {
		return false
	}
	if strings.HasSuffix(v.key, "}:journal") {
		return was.field("call") == v.field("call")
	}
	return strings.Contains(v.key, transcript)
}

// aged is what a write takes from a TTL, see Database.age.
func aged(key string) time.Duration {
	if life := settingOf(key); life >= time.Hour {
		return life / 100
	}
	return 0
}

func settingOf(key string) time.Duration {
	for _, l := range lives {
		if strings.Contains(key, l.part) {
			return l.life
		}
	}
	return 0
}

package actors

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/script"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// ScriptOf is the name of the script that a command calls: a move's, with _fast for its
// fast path, or "".
func ScriptOf(cmd redis.Cmder) string {
	args := cmd.Args()
	if len(args) < 2 || !strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
		return ""
	}
	hash, _ := args[1].(string)
	if len(hash) != 2*sha1.Size { // the text: this server did not know the script
		sum := sha1.Sum([]byte(hash)) //nolint:gosec // as above
		hash = hex.EncodeToString(sum[:])
	}
	text, _ := script.BySHA(hash)
	return text.Name
}

// Script matches the calls of a move's script, on the fast path too.
func Script(name string) redistest.Match {
	return func(cmd redis.Cmder) bool { return strings.TrimSuffix(ScriptOf(cmd), "_fast") == name }
}

// FullPath matches the calls of a move's script that are not on the fast path.
func FullPath(name string) redistest.Match {
	return func(cmd redis.Cmder) bool { return ScriptOf(cmd) == name }
}

// FastPath matches the calls of any move's fast path.
func FastPath(cmd redis.Cmder) bool { return strings.HasSuffix(ScriptOf(cmd), "_fast") }

// Load makes Redis know a move's scripts, so that no call is repeated with the text.
func (b *Bench) Load(name string) {
	b.Helper()
	for _, text := range script.All() {
		if strings.TrimSuffix(text.Name, "_fast") == name {
			expect.OK(b, b.Redis.ScriptLoad(b.Ctx, text.Source).Err())
		}
	}
}

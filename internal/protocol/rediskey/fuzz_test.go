package rediskey_test

import (
	"testing"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
)

// Every key of a session with a valid name parses to its session and its own name. No other
// program's key with valid names parses to another session.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"agent:main:telegram:dm:42", "a", "a}:b", "a{b", "", "A.b@c+d=e~-"} {
		f.Add(s, "m1")
	}
	f.Add("a", "x}:y")
	f.Add("a", ":{session:b}:t:")
	f.Fuzz(func(t *testing.T, sessionKey, id string) {
		if session, name, ok := rediskey.Parse(id); ok && id == "" {
			t.Errorf("%q is %q of %q", id, name, session)
		}
		if session.ValidateKey(sessionKey) != nil {
			return
		}
		k := rediskey.For(sessionKey)
		for key, want := range map[string]string{
			k.Run(): "run", k.Task(id): "t:" + id, k.Transcript(id): "transcript:" + id, k.Idem(id): "idem:" + id, k.Call(id): "call:" + id,
		} {
			if of, name, ok := rediskey.Parse(key); !ok || of != sessionKey || name != want {
				t.Errorf("%q is %q of %q, want %q of %q", key, name, of, want, sessionKey)
			}
		}
		if of, ok := rediskey.SessionOf(rediskey.Queue(sessionKey)); !ok || of != sessionKey {
			t.Errorf("the queue of %q is that of %q", sessionKey, of)
		}
		if rediskey.IsServer(k.Task(id)) {
			t.Errorf("%q is a server", k.Task(id))
		}
	})
}

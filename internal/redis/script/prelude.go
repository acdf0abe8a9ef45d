package script

import _ "embed"

//go:embed prelude.lua
var prelude string

// Prelude returns the Lua text that starts every script of Turnstile: now_ms(), int(n),
// next_fence(stored, now) and owns(sentinel_key, token). It ends with a newline.
func Prelude() string { return prelude }

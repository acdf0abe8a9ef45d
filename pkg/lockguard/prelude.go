package lockguard

import _ "embed"

//go:embed prelude.lua
var prelude string

// Prelude is the Lua text that stands before every script of Turnstile, in
// this package and in others: now_ms(), int(n), next_fence(stored, now) and
// owns(sentinel_key, token). It ends with a newline.
func Prelude() string { return prelude }

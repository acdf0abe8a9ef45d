//go:build walk

package main

import _ "turnstile/test/walk/counters" // for .ci/walk.sh

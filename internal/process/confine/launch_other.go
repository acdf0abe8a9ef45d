//go:build !linux

package confine

import "fmt"

// Check reports whether this system can confine programs.
func Check() error {
	return fmt.Errorf("%w: that needs Linux; use TURNSTILE_ISOLATION=wrapper, or a container", errUnsupported)
}

func launch(_, _ string, _ []string) error { return Check() }

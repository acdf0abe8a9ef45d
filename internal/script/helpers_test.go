package script_test

import (
	"sync"

	"turnstile/internal/script"
)

// making guards the list of all scripts: a program makes its scripts one after the
// other, and tests here run at once.
var making sync.Mutex

func newScript(name, source string) *script.Script {
	making.Lock()
	defer making.Unlock()
	return script.New(name, func() string { return source })
}

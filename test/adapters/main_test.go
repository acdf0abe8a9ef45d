package adapters

import (
	"os"
	"testing"

	"turnstile/test/expect"
)

func TestMain(m *testing.M) {
	if playsRole() {
		return
	}
	expect.AtOnce(4)
	os.Exit(m.Run())
}

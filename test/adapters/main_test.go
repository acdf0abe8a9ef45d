package adapters

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if playsRole() {
		return
	}
	os.Exit(m.Run())
}

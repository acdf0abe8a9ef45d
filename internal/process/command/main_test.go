package command

import (
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/process/guardian"
)

func TestMain(m *testing.M) {
	guardian.Init()
	goleak.VerifyTestMain(m)
}

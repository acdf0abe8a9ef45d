package slash_test

import (
	"testing"

	"turnstile/test/actors"
)

func TestMain(m *testing.M) { actors.Main(m) }

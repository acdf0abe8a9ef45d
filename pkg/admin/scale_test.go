package admin_test

import (
	"fmt"
	"testing"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Every session that waits counts, also those whose agents are not read because there are many. make cases runs this with
// a bound of 3.
func TestScaleOfSeveral(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 10 {
		_, err := b.Client.Session(fmt.Sprint("s", i)).Send(b.Ctx, turnstile.Message{Text: "hello"})
		expect.OK(t, err)
	}
	s, err := admin.NewClient(b.Redis).Scale(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "waiting", s.Waiting, 10)
	if n := s.Agents["default"].Waiting; n != 3 && n != 10 {
		t.Errorf("%d wait for the agent", n)
	}
}

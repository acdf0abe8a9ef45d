package explore_test

import (
	"fmt"
	"strings"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/tenants"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

// oneAtATime is a table in which one turn may run at once.
var oneAtATime = func() *tenants.Table {
	t, err := tenants.Parse([]byte(`{"tenants": {}, "agents": {"default": {"running": 1}}}`))
	if err != nil {
		panic(err)
	}
	return t
}()

func tenantOnes() []configuration {
	limit := func(l *explore.Life) { l.Redis.HSet(l.Context, rediskey.Limits, "agent:default", 1) }
	both := func(l *explore.Life) {
		c := actors.NewClient(l.Redis)
		send(l, c, main, text("m1"))
		send(l, c, other, text("m2"))
	}
	return []configuration{
		{Configuration: explore.Configuration{
			Name: "tenants", Purpose: "two sessions that one limit lets run one after the other: whoever dies where, both run, and counts equal holds",
			Sessions: []string{main, other}, AtLeast: 50_000, Kinds: explore.AllFaults, Faults: 1, Check: miscounted, Before: []func(*explore.Life){limit},
			Processes: with(list(
				explore.Process{Name: "sender1", Run: both},
				working("worker1", behaviour{sorts: true, immediate: true}), working("worker2", behaviour{sorts: true, immediate: true})), timers()),
		}, Deep: true},
		{Configuration: explore.Configuration{
			Name: "tenants-no-timers", Purpose: "where nothing fails, nobody has to look after what a limit holds back",
			Sessions: []string{main, other}, AtLeast: 1_000, Check: miscounted, Before: []func(*explore.Life){limit},
			Processes: list(explore.Process{Name: "sender1", Run: both},
				working("worker1", behaviour{sorts: true, immediate: true}), working("worker2", behaviour{sorts: true, immediate: true})),
		}},
	}
}

// miscounted finds a limit that is exceeded, or whose count is not that of its holds.
func miscounted(v explore.View) string {
	holds := 0
	for _, s := range []string{main, other} {
		if strings.Contains(v.Field(rediskey.Holds, s), "agent:default") {
			holds++
		}
	}
	count := v.Field(rediskey.Running, "agent:default")
	if holds > 1 || count != "" && count != fmt.Sprint(holds) || count == "" && holds > 0 {
		return fmt.Sprintf("limits: %d sessions hold a limit of 1, counted as %q", holds, count)
	}
	return ""
}

package protocol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// If Redis takes no writes, no claim of a batch succeeds, and none leaves a trace. A full Redis
// lets all turns end. A Redis that lacks a replica it needs lets none end until it has one.
func TestManyWhenRedisTakesNoWrites(t *testing.T) {
	t.Parallel()
	for setting, endable := range map[string]bool{"maxmemory": true, "min-replicas-to-write": false} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			set := func(value string) { expect.OK(t, server.Client().ConfigSet(t.Context(), setting, value).Err()) }
			c := gatherOn(t, server.Client(), 10)
			before := c.Dump()
			set("1")
			claims, err := c.Worker.Claim(c.Ctx, c.names)
			set("0")
			if err == nil || errors.Is(err, protocol.ErrBroken) || len(claims) > 0 {
				t.Errorf("%d claimed, %v", len(claims), err)
			}
			actors.Same(t, "a refused claim", before, c.Dump())

			claims, err = c.Worker.Claim(c.Ctx, c.names)
			expect.OK(t, err)
			before = c.Dump()
			set("1")
			if !endable {
				short, cancel := context.WithTimeout(c.Ctx, 30*time.Millisecond)
				defer cancel()
				for _, h := range claims {
					if _, err := h.Finish(short, c.Done(h)); err == nil {
						t.Errorf("%s has ended", h.Session())
					}
				}
				actors.Same(t, "a refused end", before, c.Dump())
				set("0")
			}
			more, errs := c.finishAll(claims)
			expect.OK(t, errors.Join(errs...))
			for i, h := range claims {
				if turn := h.Turn(); !more[i] || turn.Message.ID != "1" {
					t.Errorf("%s continues with %q", h.Session(), turn.Message.ID)
				}
			}
		})
	}
}

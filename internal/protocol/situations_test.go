package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// situation brings a session to where a script has the most to do, and answers
// the move that runs it.
type situation struct {
	script  string
	name    string
	prepare func(b *bench) (move func() error)
}

func situations() []situation {
	return []situation{
		{"notify", "idle", func(b *bench) func() error { return ringMove(b, "new", "") }},
		{"notify", "queued", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", "")
		}},
		{"notify", "rejected", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", session.ModeReject)
		}},
		{"notify", "interrupting", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.start()
			return ringMove(b, "new", session.ModeInterrupt)
		}},
		{"notify", "scheduled", func(b *bench) func() error {
			b.enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return b.ring("new", "") }
		}},
		{"notify", "no room", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.enqueue("new")
			return func() error { return b.ringAs("new", "", 2) }
		}},
		{"notify", "no room for a delayed one", func(b *bench) func() error {
			b.enqueue("now", asynq.ProcessIn(time.Hour))
			b.enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return b.ringAs("new", "", 1) }
		}},
		{"trim", "", func(b *bench) func() error {
			b.enqueue("now")
			b.enqueue("next")
			b.say("over")
			return b.trim(2)
		}},
		{"trim", "delayed", func(b *bench) func() error {
			for _, id := range []string{"now", "next", "over"} {
				b.enqueue(id, asynq.ProcessIn(time.Hour))
			}
			return b.trim(2)
		}},
		{"claim", "fresh", func(b *bench) func() error {
			b.sayAll("now", "next")
			return claimMove(b)
		}},
		{"claim", "too long", func(b *bench) func() error {
			b.enqueueRaw(session.TaskType, strings.Repeat("x", 3<<20), b.task("now"))
			return claimMove(b)
		}},
		{"claim", "delayed", func(b *bench) func() error {
			b.delayed("now")
			return claimMove(b)
		}},
		{"claim", "crashed", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.start()
			b.die()
			return claimMove(b)
		}},
		{"claim", "crashed and the last", func(b *bench) func() error {
			b.say("now")
			b.start()
			b.die()
			return claimMove(b)
		}},
		{"claim", "given up", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "impatient", func(c *sq.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			b.sayAll("now", "next")
			b.start()
			b.die()
			return claimMove(b)
		}},
		{"claim", "suspends and has to wait", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "strict", crashSuspends)
			b.say("now")
			h := b.start()
			b.say("next")
			b.renew(h)
			b.die()
			b.rdb.Del(b.ctx, b.k.Task(b.task("now")), b.k.Lease())
			b.rdb.HSet(b.ctx, b.k.Task(b.task("next")), "quiet", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " 100"))
			return claimMove(b)
		}},
		{"claim", "stopped", func(b *bench) func() error {
			b.say("now")
			b.start()
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			b.die()
			b.say("next")
			return claimMove(b)
		}},
		{"claim", "interrupted", func(b *bench) func() error {
			b.say("now")
			b.start()
			b.say("next", session.ModeInterrupt)
			b.die()
			return claimMove(b)
		}},
		{"unclaim", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.loseClaim("claim_fast")
			return func() error { return b.c.Unclaim(b.ctx) }
		}},
		{"unclaim", "asked to stop", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.loseClaim("claim_fast")
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			return func() error { return b.c.Unclaim(b.ctx) }
		}},
		{"promote", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.claim()
			return func() error { return h.Promote(b.ctx) }
		}},
		{"renew", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			return func() error { return b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err }
		}},
		{"emit", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Emit(b.ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}}) }
		}},
		{"emit", "longer than the stream may be", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "brief", func(c *sq.Config) { c.EventsBytes = 10_000 })
			b.say("now")
			h := b.start()
			long := []session.Event{{Type: session.EventNotice, Text: strings.Repeat("x", 11_000)}}
			expect.OK(b, h.Emit(b.ctx, long))
			return func() error { return h.Emit(b.ctx, long) }
		}},
		{"finish", "with a next", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.say("next")
			b.delayed("later")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a plain next", func(b *bench) func() error {
			b.sayAll("now", "next")
			return finishMove(b, b.start(), session.StatusDone, false)
		}},
		{"finish", "with a next that is not plain", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			b.rdb.HSet(b.ctx, b.k.Task(b.task("next")), "quiet", "1 100")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a next that is gone", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			b.rdb.Del(b.ctx, b.k.Task(b.task("next")))
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim", "of what is gone", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.rdb.Del(b.ctx, b.k.Task(b.task("now")))
			return claimMove(b)
		}},
		{"finish", "with a delayed next", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.delayed("next")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "the last", func(b *bench) func() error {
			b.say("now")
			return finishMove(b, b.start(), session.StatusDone, false)
		}},
		{"finish", "released", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			b.delayed("later")
			return finishMove(b, h, session.StatusDone, true)
		}},
		{"finish", "failed", func(b *bench) func() error {
			b.sayAll("now", "next")
			return finishMove(b, b.start(), session.StatusFailed, false)
		}},
		{"requeue", "drained", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			return func() error { return h.Requeue(b.ctx, "drain") }
		}},
		{"requeue", "failed", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Retry(b.ctx, errors.New("no"), time.Hour) }
		}},
		{"requeue", "cut off", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			return func() error {
				return h.Requeue(b.ctx, "drain", session.Entry{Role: session.RoleUser, Text: "now"})
			}
		}},
		{"mark", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return b.c.Mark(b.ctx, []*sq.Claim{h}, "drain")[0].Err }
		}},
		{"mark", "starting", func(b *bench) func() error {
			b.say("now")
			h := b.claim()
			return func() error { return b.c.Mark(b.ctx, []*sq.Claim{h}, "drain")[0].Err }
		}},
		{"checkpoint", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}) }
		}},
		{"keep", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.StoreState(b.ctx, []byte(`{"agent":"test"}`), 2) }
		}},
		{"keep", "nothing", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			expect.OK(b, h.StoreState(b.ctx, []byte(`1`), 0))
			return func() error { return h.StoreState(b.ctx, nil, 0) }
		}},
		{"ask", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error {
				_, err := h.Ask(b.ctx, session.Question{Name: "run make"})
				return err
			}
		}},
		{"ask", "no more", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.asks(h, "run make")
			return func() error {
				_, err := h.Withdraw(b.ctx)
				return err
			}
		}},
		{"answer", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.asks(h, "run make")
			return func() error {
				_, err := b.client.Decide(b.ctx, key, 1, session.Always)
				return err
			}
		}},
		{"steer", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.say("queued")
			b.say("one", session.ModeSteer)
			b.say("two", session.ModeSteer)
			return func() error {
				_, err := h.Steer(b.ctx)
				return err
			}
		}},
		{"finish", "failed, with an untaken steer", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.say("taken", session.ModeSteer)
			b.say("untaken", session.ModeSteer)
			_, err := h.Steer(b.ctx)
			expect.OK(b, err)
			return func() error {
				_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "failed, with an untaken steer, asked to stop", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.say("taken", session.ModeSteer)
			b.say("untaken", session.ModeSteer)
			_, err := h.Steer(b.ctx)
			expect.OK(b, err)
			_, err = b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			b.say("next")
			return func() error {
				_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "with collected ones next", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.collected("one", "two")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim", "collected", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.collected("one", "two")
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true})
			expect.OK(b, err)
			return claimMove(b)
		}},
		{"dismiss", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.collected("one", "two")
			b.finish(h)
			expect.OK(b, h.Promote(b.ctx))
			return func() error {
				return h.Dismiss(b.ctx, h.Turn().Collected[0], session.StatusExpired, "too old")
			}
		}},
		{"notify", "dropping the oldest", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "small", func(c *sq.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.say("now")
			b.start()
			b.say("old")
			return ringMove(b, "new", "")
		}},
		{"notify", "collected", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", session.ModeCollect)
		}},
		{"notify", "to be steered", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", session.ModeSteer)
		}},
		{"claim", "rolled back", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			expect.OK(b, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.say("next", session.ModeRollback)
			b.die()
			return claimMove(b)
		}},
		{"claim", "interrupted with a partial", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			expect.OK(b, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.say("next", session.ModeInterrupt)
			b.die()
			return claimMove(b)
		}},
		{"title", "a user's", func(b *bench) func() error {
			return func() error { return b.client.SetTitle(b.ctx, key, "mine") }
		}},
		{"title", "an agent's", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Title(b.ctx, "its") }
		}},
		{"configure", "", func(b *bench) func() error {
			return func() error { return b.client.Configure(b.ctx, key, session.QueueSettings{Mode: session.ModeCollect}) }
		}},
		{"undo", "", func(b *bench) func() error {
			b.sayAll("one", "two")
			b.drain()
			return b.retract("", "")
		}},
		{"undo", "to try again", func(b *bench) func() error {
			b.sayAll("one", "two")
			b.drain()
			return b.retract(b.task("again"), "msg")
		}},
		{"rerun", "", func(b *bench) func() error {
			b.sayAll("one", "two")
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			var ids, arrived []string
			for _, id := range []string{"one", "two"} {
				ids, arrived = append(ids, b.task(id)), append(arrived, b.rdb.HGet(b.ctx, b.k.Task(b.task(id)), "arrived").Val())
			}
			return func() error {
				return sq.Do(b.ctx, b.rdb, "rerun", sq.KeysOf(key, ""), []string{b.k.Call("name")},
					"statuses", "failed stopped", "line_cap", 10_000, "ids", ids, "arrived", arrived).Err()
			}
		}},
		{"discard", "", func(b *bench) func() error {
			b.sayAll("one", "two")
			_, err := b.client.Stop(b.ctx, key)
			expect.OK(b, err)
			return func() error {
				return sq.Do(b.ctx, b.rdb, "discard", sq.KeysOf(key, ""), nil, "ids", []string{b.task("one"), b.task("two")}).Err()
			}
		}},
		{"erase", "", func(b *bench) func() error {
			b.sayAll("one", "two")
			b.finish(b.start())
			b.die()
			keys := sq.KeysOf(key, b.info().SessionID)
			fence := b.info().Fence
			b.pass(5 * time.Millisecond) // the fence is not to lie ahead
			return func() error {
				return sq.Do(b.ctx, b.rdb, "erase", keys, nil, "fence", fence, "size", 500, "last", true).Err()
			}
		}},
		{"stop", "", func(b *bench) func() error {
			b.say("now")
			b.start()
			b.sayAll("next", "later")
			return func() error {
				_, err := b.client.Stop(b.ctx, key)
				return err
			}
		}},
		{"stop", "of more than a batch", func(b *bench) func() error {
			b.sayAll("now", "next", "later")
			b.start()
			return b.stopInPart
		}},
		{"rotate", "", func(b *bench) func() error {
			b.say("now")
			b.start()
			return func() error {
				_, err := b.client.Rotate(b.ctx, key, "")
				return err
			}
		}},
		{"look", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.start()
			b.die()
			return func() error {
				return sq.Do(b.ctx, b.rdb, "look", sq.KeysOf(key, ""), nil).Err()
			}
		}},
		{"purge", "", func(b *bench) func() error {
			b.sayAll("good", "bad")
			h := b.start()
			b.finish(h)
			expect.OK(b, h.Promote(b.ctx))
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed})
			expect.OK(b, err)
			b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("good")})
			return func() error {
				return sq.Do(b.ctx, b.rdb, "purge", sq.KeysOf(key, ""), nil, "batch", 100, "archive_ttl", -7200).Err()
			}
		}},
		{"forget", "", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "forgetful", func(c *sq.Config) { c.Retention = 0 })
			b.say("now")
			b.drain()
			keys := sq.KeysOf(key, b.info().SessionID)
			return func() error {
				return sq.Do(b.ctx, b.rdb, "forget", keys, nil, "age", -1).Err()
			}
		}},
	}
}

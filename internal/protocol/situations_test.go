package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// situation brings a session to where a script has the most to do, and returns the move that runs
// it.
type situation struct {
	script  string
	name    string
	prepare func(b *actors.Bench) (move func() error)
}

func situations() []situation {
	return []situation{
		{"notify", "idle", func(b *actors.Bench) func() error { return notifyMove(b, "new", "") }},
		{"notify", "queued", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", "")
		}},
		{"notify", "rejected", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", session.ModeReject)
		}},
		{"notify", "interrupting", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			return notifyMove(b, "new", session.ModeInterrupt)
		}},
		{"notify", "scheduled", func(b *actors.Bench) func() error {
			b.Enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return notify(b, "new", "") }
		}},
		{"notify", "no room", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Enqueue("new")
			return func() error { return notifyWithCap(b, "new", "", 2) }
		}},
		{"notify", "no room for a delayed one", func(b *actors.Bench) func() error {
			b.Enqueue("now", asynq.ProcessIn(time.Hour))
			b.Enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return notifyWithCap(b, "new", "", 1) }
		}},
		{"trim", "", func(b *actors.Bench) func() error {
			b.Enqueue("now")
			b.Enqueue("next")
			b.Say("over")
			return trim(b, 2)
		}},
		{"trim", "delayed", func(b *actors.Bench) func() error {
			for _, id := range []string{"now", "next", "over"} {
				b.Enqueue(id, asynq.ProcessIn(time.Hour))
			}
			return trim(b, 2)
		}},
		{"claim", "fresh", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return claimMove(b)
		}},
		{"claim", "too long", func(b *actors.Bench) func() error {
			b.EnqueueTask(session.TaskType, strings.Repeat("x", 3<<20), b.Task("now"))
			return claimMove(b)
		}},
		{"claim", "delayed", func(b *actors.Bench) func() error {
			b.SayDelayed("now")
			return claimMove(b)
		}},
		{"claim", "crashed", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			return claimMove(b)
		}},
		{"claim", "crashed and the last", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.Die()
			return claimMove(b)
		}},
		{"claim", "archived as stuck", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "impatient", func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			return claimMove(b)
		}},
		{"claim", "suspends and has to wait", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "strict", crashSuspends)
			b.Say("now")
			h := b.Start()
			b.Say("next")
			b.Renew(h)
			b.Die()
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("now")), b.Keys.Lease())
			b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("next")), "quiet", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " 100"))
			return claimMove(b)
		}},
		{"claim", "stopped", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			b.Die()
			b.Say("next")
			return claimMove(b)
		}},
		{"claim", "interrupted", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.Say("next", session.ModeInterrupt)
			b.Die()
			return claimMove(b)
		}},
		{"unclaim", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			loseClaim(b, "claim_fast")
			return func() error { return b.Worker.Unclaim(b.Ctx) }
		}},
		{"unclaim", "after a stop", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			loseClaim(b, "claim_fast")
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			return func() error { return b.Worker.Unclaim(b.Ctx) }
		}},
		{"promote", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Claim()
			return func() error { return h.Promote(b.Ctx) }
		}},
		{"renew", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			return func() error { return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err }
		}},
		{"emit", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}}) }
		}},
		{"emit", "longer than the stream may be", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "brief", func(c *protocol.Config) { c.EventsBytes = 10_000 })
			b.Say("now")
			h := b.Start()
			long := []session.Event{{Type: session.EventNotice, Text: strings.Repeat("x", 11_000)}}
			expect.OK(b, h.Emit(b.Ctx, long))
			return func() error { return h.Emit(b.Ctx, long) }
		}},
		{"finish", "with a next", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("next")
			b.SayDelayed("later")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a next for the fast path", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return finishMove(b, b.Start(), session.StatusDone, false)
		}},
		{"finish", "with a next for the full path", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("next")), "quiet", "1 100")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a next that is gone", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("next")))
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim", "of what is gone", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("now")))
			return claimMove(b)
		}},
		{"finish", "with a delayed next", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayDelayed("next")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "the last", func(b *actors.Bench) func() error {
			b.Say("now")
			return finishMove(b, b.Start(), session.StatusDone, false)
		}},
		{"finish", "released", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.SayDelayed("later")
			return finishMove(b, h, session.StatusDone, true)
		}},
		{"finish", "failed", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return finishMove(b, b.Start(), session.StatusFailed, false)
		}},
		{"requeue", "drained", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			return func() error { return h.Requeue(b.Ctx, "drain") }
		}},
		{"requeue", "failed", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Retry(b.Ctx, errors.New("no"), time.Hour) }
		}},
		{"requeue", "interrupted", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			return func() error {
				return h.Requeue(b.Ctx, "drain", session.Entry{Role: session.RoleUser, Text: "now"})
			}
		}},
		{"mark", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")[0].Err }
		}},
		{"mark", "starting", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Claim()
			return func() error { return b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")[0].Err }
		}},
		{"checkpoint", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Checkpoint(b.Ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}) }
		}},
		{"keep", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.StoreState(b.Ctx, []byte(`{"agent":"test"}`), 2) }
		}},
		{"keep", "nothing", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			expect.OK(b, h.StoreState(b.Ctx, []byte(`1`), 0))
			return func() error { return h.StoreState(b.Ctx, nil, 0) }
		}},
		{"ask", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error {
				_, err := h.Ask(b.Ctx, session.Question{Name: "run make"})
				return err
			}
		}},
		{"ask", "no more", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Asks(h, "run make")
			return func() error {
				_, err := h.Withdraw(b.Ctx)
				return err
			}
		}},
		{"answer", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Asks(h, "run make")
			return func() error {
				_, err := b.Client.Decide(b.Ctx, actors.Key, 1, session.Always)
				return err
			}
		}},
		{"steer", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("queued")
			b.Say("one", session.ModeSteer)
			b.Say("two", session.ModeSteer)
			return func() error {
				_, err := h.Steer(b.Ctx)
				return err
			}
		}},
		{"finish", "failed, with an untaken steer", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("taken", session.ModeSteer)
			b.Say("untaken", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(b, err)
			return func() error {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "failed, with an untaken steer, after a stop", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("taken", session.ModeSteer)
			b.Say("untaken", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(b, err)
			_, err = b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			b.Say("next")
			return func() error {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "with collected ones next", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayCollected("one", "two")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim", "collected", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayCollected("one", "two")
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			expect.OK(b, err)
			return claimMove(b)
		}},
		{"dismiss", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayCollected("one", "two")
			b.Finish(h)
			expect.OK(b, h.Promote(b.Ctx))
			return func() error {
				return h.Dismiss(b.Ctx, h.Turn().Collected[0], session.StatusExpired, "too old")
			}
		}},
		{"notify", "dropping the oldest", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "small", func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.Say("now")
			b.Start()
			b.Say("old")
			return notifyMove(b, "new", "")
		}},
		{"notify", "collected", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", session.ModeCollect)
		}},
		{"notify", "to be steered", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", session.ModeSteer)
		}},
		{"claim", "rolled back", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			expect.OK(b, h.Checkpoint(b.Ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.Say("next", session.ModeRollback)
			b.Die()
			return claimMove(b)
		}},
		{"claim", "interrupted with a partial", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			expect.OK(b, h.Checkpoint(b.Ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.Say("next", session.ModeInterrupt)
			b.Die()
			return claimMove(b)
		}},
		{"title", "a user's", func(b *actors.Bench) func() error {
			return func() error { return b.Client.SetTitle(b.Ctx, actors.Key, "mine") }
		}},
		{"title", "an agent's", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Title(b.Ctx, "its") }
		}},
		{"configure", "", func(b *actors.Bench) func() error {
			return func() error {
				return b.Client.Configure(b.Ctx, actors.Key, session.QueueSettings{Mode: session.ModeCollect})
			}
		}},
		{"undo", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Drain()
			return retract(b, "", "")
		}},
		{"undo", "to try again", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Drain()
			return retract(b, b.Task("again"), "msg")
		}},
		{"rerun", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			var ids, arrived []string
			for _, id := range []string{"one", "two"} {
				ids, arrived = append(ids, b.Task(id)), append(arrived, b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "arrived").Val())
			}
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "rerun", protocol.KeysOf(actors.Key, ""), []string{b.Keys.Call("name")},
					"statuses", "failed stopped", "line_cap", 10_000, "ids", ids, "arrived", arrived).Err()
			}
		}},
		{"discard", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "discard", protocol.KeysOf(actors.Key, ""), nil, "ids", []string{b.Task("one"), b.Task("two")}).Err()
			}
		}},
		{"erase", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Finish(b.Start())
			b.Die()
			keys := protocol.KeysOf(actors.Key, b.Info().SessionID)
			fence := b.Info().Fence
			b.Pass(5 * time.Millisecond) // the fencing token must not be ahead of the clock
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "erase", keys, nil, "fence", fence, "size", 500, "last", true).Err()
			}
		}},
		{"stop", "", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.SayAll("next", "later")
			return func() error {
				_, err := b.Client.Stop(b.Ctx, actors.Key)
				return err
			}
		}},
		{"stop", "of more than a batch", func(b *actors.Bench) func() error {
			b.SayAll("now", "next", "later")
			b.Start()
			return func() error { return stopInPart(b) }
		}},
		{"rotate", "", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return func() error {
				_, err := b.Client.Rotate(b.Ctx, actors.Key, "")
				return err
			}
		}},
		{"look", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "look", protocol.KeysOf(actors.Key, ""), nil).Err()
			}
		}},
		{"purge", "", func(b *actors.Bench) func() error {
			b.SayAll("good", "bad")
			h := b.Start()
			b.Finish(h)
			expect.OK(b, h.Promote(b.Ctx))
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed})
			expect.OK(b, err)
			b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("good")})
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "purge", protocol.KeysOf(actors.Key, ""), nil, "batch", 100, "archive_ttl", -7200).Err()
			}
		}},
		{"forget", "", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "forgetful", func(c *protocol.Config) { c.Retention = 0 })
			b.Say("now")
			b.Drain()
			keys := protocol.KeysOf(actors.Key, b.Info().SessionID)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "forget", keys, nil, "age", -1).Err()
			}
		}},
	}
}

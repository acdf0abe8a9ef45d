package sessionqueue_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/followup"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
)

// situation brings a session to where a script has the most to do, and answers
// the move that runs it.
type situation struct {
	script  string
	name    string
	prepare func(b *bench) (move func() error)
}

// enqueue puts a message in without ringing, as a sender that died does.
func (b *bench) enqueue(id string, opts ...asynq.Option) {
	b.Helper()
	client := asynq.NewClientFromRedisClient(b.rdb)
	task := asynq.NewTaskWithHeaders(session.TaskType, []byte(fmt.Sprintf(`{"v":1,"text":%q}`, id)), map[string]string{"turnstile-nonce": "nonce-" + id})
	opts = append([]asynq.Option{asynq.Queue(rediskey.Queue(key)), asynq.TaskID(b.task(id))}, opts...)
	_, err := client.EnqueueContext(b.ctx, task, opts...)
	must(b, err)
}

// enqueueRaw puts any task into the session's queue.
func (b *bench) enqueueRaw(kind, payload, id string, opts ...asynq.Option) {
	b.Helper()
	opts = append([]asynq.Option{asynq.Queue(rediskey.Queue(key)), asynq.TaskID(id)}, opts...)
	_, err := asynq.NewClientFromRedisClient(b.rdb).EnqueueContext(b.ctx, asynq.NewTask(kind, []byte(payload)), opts...)
	must(b, err)
}

// ring is the sender's second half.
func (b *bench) ring(id string, mode session.Mode) error {
	return sq.Scripts["ring"].Run(b.ctx, b.rdb, sq.KeysOf(key, ""), b.k.TaskPrefix(), b.task(id), "nonce-"+id,
		fmt.Sprintf(`{"id":%q,"text":%q}`, id, id), string(mode), session.IDPrefix(key), 1000, key).Err()
}

// backdate makes a delayed message due.
func (b *bench) backdate(id string) {
	b.rdb.ZAddXX(b.ctx, b.k.Scheduled(), redis.Z{Score: float64(time.Now().Unix() - 60), Member: b.task(id)})
}

func (b *bench) delayed(id string) {
	b.Helper()
	_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id}, sq.Delay(time.Hour))
	must(b, err)
	b.backdate(id)
}

func claimMove(b *bench) func() error {
	return func() error {
		_, err := b.c.Claim(b.ctx, []string{key})
		return err
	}
}

func finishMove(b *bench, h *sq.Hold, status sq.Status, release bool) func() error {
	return func() error {
		_, err := h.Finish(b.ctx, sq.End{Status: status, Error: "why", Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}, Release: release})
		return err
	}
}

func ringMove(b *bench, id string, mode session.Mode) func() error {
	b.enqueue(id)
	return func() error { return b.ring(id, mode) }
}

// collected puts messages in that are one turn together, their window over.
func (b *bench) collected(ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.say(id, session.ModeCollect)
		b.rdb.HSet(b.ctx, b.k.Task(b.task(id)), "quiet", "1 100")
	}
}

// retract is the move that takes the last turn out of the transcript, be it to run
// a message again.
func (b *bench) retract(task, msg string) func() error {
	b.Helper()
	id := b.info().SessionID
	entries, err := b.client.Transcript(b.ctx, key, id)
	must(b, err)
	turn := "none"
	if len(entries) > 0 {
		turn = entries[len(entries)-1].Turn
	}
	return func() error {
		return sq.Scripts["undo"].Run(b.ctx, b.rdb, sq.KeysOf(key, id), b.k.TaskPrefix(), turn, task, msg, id).Err()
	}
}

func situations() []situation {
	return []situation{
		{"ring", "idle", func(b *bench) func() error { return ringMove(b, "new", "") }},
		{"ring", "queued", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", "")
		}},
		{"ring", "rejected", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", session.ModeReject)
		}},
		{"ring", "interrupting", func(b *bench) func() error {
			b.sayAll("now", "next")
			b.start()
			return ringMove(b, "new", session.ModeInterrupt)
		}},
		{"ring", "scheduled", func(b *bench) func() error {
			b.enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return b.ring("new", "") }
		}},
		{"claim", "fresh", func(b *bench) func() error {
			b.sayAll("now", "next")
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
		{"claim", "stopped", func(b *bench) func() error {
			b.say("now")
			b.start()
			_, err := b.client.Stop(b.ctx, key)
			must(b, err)
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
		{"promote", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.claim()
			return func() error { return h.Promote(b.ctx) }
		}},
		{"renew", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			return func() error { return b.c.Renew(b.ctx, []*sq.Hold{h})[0].Err }
		}},
		{"emit", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Emit(b.ctx, []sq.Event{{Type: sq.EventNotice, Text: "hi"}}) }
		}},
		{"finish", "with a next", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.say("next")
			b.delayed("later")
			return finishMove(b, h, sq.StatusDone, false)
		}},
		{"finish", "with a plain next", func(b *bench) func() error {
			b.sayAll("now", "next")
			return finishMove(b, b.start(), sq.StatusDone, false)
		}},
		{"finish", "with a next that is not plain", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			b.rdb.HSet(b.ctx, b.k.Task(b.task("next")), "quiet", "1 100")
			return finishMove(b, h, sq.StatusDone, false)
		}},
		{"finish", "with a next that is gone", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			b.rdb.Del(b.ctx, b.k.Task(b.task("next")))
			return finishMove(b, h, sq.StatusDone, false)
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
			return finishMove(b, h, sq.StatusDone, false)
		}},
		{"finish", "the last", func(b *bench) func() error {
			b.say("now")
			return finishMove(b, b.start(), sq.StatusDone, false)
		}},
		{"finish", "released", func(b *bench) func() error {
			b.sayAll("now", "next")
			h := b.start()
			b.delayed("later")
			return finishMove(b, h, sq.StatusDone, true)
		}},
		{"fail", "", func(b *bench) func() error {
			b.sayAll("now", "next")
			return finishMove(b, b.start(), sq.StatusFailed, false)
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
			return func() error { return b.c.Mark(b.ctx, []*sq.Hold{h}, "drain")[0].Err }
		}},
		{"mark", "starting", func(b *bench) func() error {
			b.say("now")
			h := b.claim()
			return func() error { return b.c.Mark(b.ctx, []*sq.Hold{h}, "drain")[0].Err }
		}},
		{"checkpoint", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}) }
		}},
		{"keep", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Keep(b.ctx, []byte(`{"agent":"test"}`), 2) }
		}},
		{"keep", "nothing", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			must(b, h.Keep(b.ctx, []byte(`1`), 0))
			return func() error { return h.Keep(b.ctx, nil, 0) }
		}},
		{"ask", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			return func() error { return h.Ask(b.ctx, sq.Question{Number: 1, Name: "run make"}) }
		}},
		{"ask", "no more", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			must(b, h.Ask(b.ctx, sq.Question{Number: 1, Name: "run make"}))
			return func() error { return h.Withdraw(b.ctx) }
		}},
		{"answer", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			must(b, h.Ask(b.ctx, sq.Question{Number: 1, Name: "run make"}))
			return func() error {
				_, err := b.client.Answer(b.ctx, key, 1, sq.Always)
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
		{"finish", "with an untaken steer", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.say("taken", session.ModeSteer)
			b.say("untaken", session.ModeSteer)
			_, err := h.Steer(b.ctx)
			must(b, err)
			return func() error {
				_, err := h.Finish(b.ctx, sq.End{Status: sq.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "with collected ones next", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.collected("one", "two")
			return finishMove(b, h, sq.StatusDone, false)
		}},
		{"claim", "collected", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.collected("one", "two")
			_, err := h.Finish(b.ctx, sq.End{Status: sq.StatusDone, Release: true})
			must(b, err)
			return claimMove(b)
		}},
		{"dismiss", "", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.collected("one", "two")
			b.finish(h)
			must(b, h.Promote(b.ctx))
			return func() error {
				return h.Dismiss(b.ctx, h.Turn().Collected[0], sq.StatusExpired, "too old")
			}
		}},
		{"ring", "dropping the oldest", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "small", func(c *sq.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.say("now")
			b.start()
			b.say("old")
			return ringMove(b, "new", "")
		}},
		{"ring", "collected", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", session.ModeCollect)
		}},
		{"ring", "to be steered", func(b *bench) func() error {
			b.say("now")
			b.start()
			return ringMove(b, "new", session.ModeSteer)
		}},
		{"claim", "rolled back", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			must(b, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.say("next", session.ModeRollback)
			b.die()
			return claimMove(b)
		}},
		{"claim", "interrupted with a partial", func(b *bench) func() error {
			b.say("now")
			h := b.start()
			must(b, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
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
			return func() error { return b.client.Configure(b.ctx, key, followup.Settings{Mode: session.ModeCollect}) }
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
			must(b, err)
			return func() error {
				return sq.Scripts["rerun"].Run(b.ctx, b.rdb, sq.KeysOf(key, ""), b.k.TaskPrefix(), 500, "name", "", "stopped").Err()
			}
		}},
		{"erase", "", func(b *bench) func() error {
			b.sayAll("one", "two")
			b.finish(b.start())
			b.die()
			keys := sq.KeysOf(key, b.info().SessionID)
			fence := b.info().Fence
			return func() error {
				return sq.Scripts["erase"].Run(b.ctx, b.rdb, keys, b.k.TaskPrefix(), fence).Err()
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
				return sq.Scripts["look"].Run(b.ctx, b.rdb, sq.KeysOf(key, ""), b.k.TaskPrefix()).Err()
			}
		}},
		{"purge", "", func(b *bench) func() error {
			b.sayAll("good", "bad")
			h := b.start()
			b.finish(h)
			must(b, h.Promote(b.ctx))
			_, err := h.Finish(b.ctx, sq.End{Status: sq.StatusFailed})
			must(b, err)
			b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("good")})
			return func() error {
				return sq.Scripts["purge"].Run(b.ctx, b.rdb, sq.KeysOf(key, ""), b.k.TaskPrefix(), 100, -7200).Err()
			}
		}},
		{"forget", "", func(b *bench) func() error {
			b.c = newWorker(b.T, b.rdb, "forgetful", func(c *sq.Config) { c.Retention = 0 })
			b.say("now")
			b.drain()
			keys := sq.KeysOf(key, b.info().SessionID)
			return func() error {
				return sq.Scripts["forget"].Run(b.ctx, b.rdb, keys, b.k.TaskPrefix(), -1).Err()
			}
		}},
	}
}

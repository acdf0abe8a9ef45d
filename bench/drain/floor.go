package main

import (
	"context"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

//go:embed floor.lua
var floorSource string

var floorScript = script.New("floor", floorSource)

// sample is the data that one drained message leaves.
type sample struct {
	msg, result, event string
	entries            []string
}

// takeSample runs one message and reads its data.
func takeSample(ctx context.Context, srv *lab.Server) (s sample, err error) {
	const session = "bench:0"
	if _, err := drainTurnstile(ctx, srv, lab.Load{Sessions: 1, Each: 1}, 1); err != nil {
		return s, err
	}
	rdb, k := srv.Client(), rediskey.For(session)
	defer rdb.Close()
	id := rdb.ZRange(ctx, k.Completed(), 0, 0).Val()
	if len(id) != 1 {
		return s, fmt.Errorf("%d results of one message", len(id))
	}
	task := rdb.HGetAll(ctx, k.Task(id[0])).Val()
	s.msg, s.result = task["msg"], task["result"]
	s.entries = rdb.LRange(ctx, k.Transcript(rdb.HGet(ctx, k.Record(), "session_id").Val()), 0, -1).Val()
	for _, m := range rdb.XRange(ctx, k.Events(), "-", "+").Val() {
		if start, ok := m.Values["s"].(string); ok {
			s.event = start
		}
	}
	if s.msg == "" || s.result == "" || s.event == "" || len(s.entries) != 2 {
		return s, fmt.Errorf("a drained message left %+v", s)
	}
	return s, nil
}

// drainFloor only writes the data that the turns of a load leave: the messages of each session one
// after the other, in as many concurrent sessions as there are slots. The claims are made before,
// and not counted.
func drainFloor(ctx context.Context, srv *lab.Server, l lab.Load, slots int, s sample) (measure, error) {
	heads := make([]string, l.Sessions)
	fill := func(setup redis.UniversalClient) error {
		if err := l.Fill(ctx, setup, "bench", "hello"); err != nil {
			return err
		}
		return lab.Parallel(l.Sessions, func(i int) (err error) {
			k := rediskey.For(fmt.Sprint("bench:", i))
			if heads[i], err = setup.RPopLPush(ctx, k.Pending(), k.Active()).Result(); err != nil {
				return err
			}
			_, err = setup.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, k.Sentinel(), "token", 0)
				p.HSet(ctx, k.Run(), "fence", "1000000000000", "ids", heads[i], "started_at", "1000000000000")
				return nil
			})
			return err
		})
	}
	return timed(ctx, srv, l.Messages(), fill, func(rdb redis.UniversalClient, each func()) (func(), error) {
		if err := rdb.ScriptLoad(ctx, floorScript.Text().Source).Err(); err != nil {
			return nil, err
		}
		batcher := script.NewBatcher(rdb, inFlight)
		var wg sync.WaitGroup
		errs := make([]error, slots)
		for slot := range slots {
			wg.Go(func() {
				for i := slot; i < l.Sessions && errs[slot] == nil; i += slots {
					errs[slot] = floor(ctx, batcher, fmt.Sprint("bench:", i), heads[i], s, each)
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
		return func() {}, nil
	})
}

// inFlight is as in internal/protocol.
const inFlight = 3

// floor ends all turns of one session, in batches with those of others.
func floor(ctx context.Context, batcher *script.Batcher, session, id string, s sample, each func()) error {
	k := rediskey.For(session)
	names := []string{k.Sentinel(), k.Run(), k.Pending(), k.Active(), k.Completed(), k.Transcript("bench"), k.Events()}
	for fence := time.Now().UnixMilli(); ; fence++ {
		call := &script.Call{Script: floorScript, Keys: names, Args: []any{
			k.TaskPrefix(), "token", id, s.msg, s.result, s.event, fence, fence, fence/1000 + 3600, s.entries[0], s.entries[1],
		}}
		batcher.Do(ctx, call)
		each()
		if call.Err != nil || len(call.Result) < 2 { // no message follows
			return call.Err
		}
		id = call.Result.Text(0)
	}
}

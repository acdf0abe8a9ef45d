package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol/rediskey"
)

// Layout is the version of the keys and scripts that this build's workers use. Workers of two layouts must not share
// a Redis.
const Layout = 2

// CheckLayout returns an error if a worker with another layout lives.
func CheckLayout(ctx context.Context, rdb redis.UniversalClient) error {
	beats, err := Heartbeats(ctx, rdb)
	for _, beat := range beats {
		if beat.Layout != Layout {
			return fmt.Errorf("the worker %s on %s is of another build, whose records in Redis this one does not share: stop all workers of that build, then start this one",
				cmp.Or(beat.Name, strconv.Itoa(beat.PID)), beat.Host)
		}
	}
	return err
}

// Heartbeat describes a live worker.
type Heartbeat struct {
	Name     string
	Host     string
	PID      int
	Slots    int
	Turns    int // running turns
	Draining bool
	Started  time.Time // by the worker's clock
	Agent    string    // what its default agent is: echo, claude and so on
	Agents   []string  // the names of its agents
	Programs bool      // an agent may run programs on its machine
	Takes    []string  // the names of the agents that take requests of clients for the model
	Layout   int       // of the keys and scripts that it uses, see Layout

	Unable map[string]string // those of Agents that it cannot start now, with a sentence that says why
}

// CountHeartbeats counts the live workers. It includes the asynq.Servers of other programs.
func CountHeartbeats(ctx context.Context, rdb redis.UniversalClient) (int64, error) {
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	return rdb.ZCount(ctx, rediskey.Servers, strconv.FormatInt(now.Unix(), 10), "+inf").Result()
}

// Ping returns an error if Redis cannot be reached, or stores nothing (redisconn.RefusesWrites). Then workers live,
// but their heartbeats end. A user that may not write the key cannot find out. On a Cluster it asks one node.
func Ping(ctx context.Context, rdb redis.UniversalClient) error {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	free := rediskey.For(" ").State() // a blank is no valid session key, so XX writes nothing
	err := rdb.SetXX(ctx, free, "", 0).Err()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return nil
	}
	return err
}

// heartbeatSkew is how slow a worker's clock may be, compared with Redis'. asynq lists a heartbeat by
// the worker's clock. Its key expires by Redis' clock, and shows whether the worker lives.
const heartbeatSkew = time.Hour

// Heartbeats returns the live workers, read from the same keys as asynqmon's Servers page.
func Heartbeats(ctx context.Context, rdb redis.UniversalClient) ([]Heartbeat, error) {
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	names, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: rediskey.Servers, Start: now.Add(-heartbeatSkew).Unix(), Stop: "+inf", ByScore: true}).Result()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !rediskey.IsServer(name) })
	infos := make([]*redis.StringCmd, len(names))
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			infos[i] = p.Get(ctx, name)
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a key that has just expired unwrapped
		return nil, err
	}
	var list []Heartbeat
	for _, info := range infos {
		if w, ok := parseServer([]byte(info.Val())); ok {
			list = append(list, w)
		}
	}
	return list, nil
}

// Agents returns the names of the agents that live workers run, sorted. None: no worker lives.
func Agents(ctx context.Context, rdb redis.UniversalClient) (names []string, err error) {
	beats, err := Heartbeats(ctx, rdb)
	for _, beat := range beats {
		names = append(names, beat.Agents...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// parseServer reads asynq's ServerInfo. ok is false if it cannot be read, or is another program's.
func parseServer(info []byte) (w Heartbeat, ok bool) {
	for len(info) > 0 {
		num, kind, n := protowire.ConsumeTag(info)
		if n < 0 {
			return w, false
		}
		info = info[n:]
		var text []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(info)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(info)
		case protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType:
			n = protowire.ConsumeFieldValue(num, kind, info)
		}
		if n < 0 || num == serverQueues {
			return w, false
		}
		info = info[n:]
		switch num {
		case serverHost:
			w.Host = string(text)
		case serverPID:
			w.PID = int(int32(number))
		case serverConcurrency:
			w.Slots = int(int32(number))
		case serverStatus:
			w.Draining = string(text) == "stopped" // asynq's word for a server that takes nothing new
		case serverStart:
			w.Started = parseTime(text)
		case serverActive:
			w.Turns = int(int32(number))
		case serverWorker:
			w.Name = string(text)
		case serverAgent:
			w.Agent = string(text)
		case serverAgents:
			w.Agents = append(w.Agents, string(text))
		case serverTakes:
			w.Takes = append(w.Takes, string(text))
		case serverUnable:
			name, why, _ := strings.Cut(string(text), " ")
			if w.Unable == nil {
				w.Unable = map[string]string{}
			}
			w.Unable[name] = why
		case serverLayout:
			w.Layout = int(int32(number))
		case serverPrograms:
			w.Programs = number == 1
		}
	}
	return w, !w.Started.IsZero()
}

// parseTime reads a protobuf Timestamp.
func parseTime(stamp []byte) time.Time {
	var seconds, nanos uint64
	for len(stamp) > 0 {
		num, kind, n := protowire.ConsumeTag(stamp)
		if n < 0 || kind != protowire.VarintType {
			return time.Time{}
		}
		v, m := protowire.ConsumeVarint(stamp[n:])
		if m < 0 {
			return time.Time{}
		}
		switch num {
		case timestampSeconds:
			seconds = v
		case timestampNanos:
			nanos = v
		}
		stamp = stamp[n+m:]
	}
	return time.Unix(int64(seconds), int64(nanos))
}

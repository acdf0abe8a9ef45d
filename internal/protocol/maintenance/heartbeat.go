package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
)

// Field numbers of asynq's ServerInfo and WorkerInfo (asynq v0.26.0, internal/proto),
// pinned by the contract tests. Both begin with the same three: host, pid, server id.
const (
	serverHost        = 1
	serverPID         = 2
	serverConcurrency = 4
	serverQueues      = 5
	serverStatus      = 7
	serverStart       = 8
	serverActive      = 9

	// Turnstile's fields, which asynq ignores: the worker's name, the name of the program that is its
	// default agent, whether an agent runs programs (1: yes, 2: no), the names of all agents, the layout,
	// the names of the agents that take requests of clients, and those of agents that it cannot start now, each
	// with a blank and a sentence that says why.
	serverWorker   = 1000
	serverAgent    = 1001
	serverPrograms = 1002
	serverAgents   = 1003
	serverLayout   = 1004
	serverTakes    = 1005
	serverUnable   = 1006

	workerTaskID   = 4
	workerTaskType = 5
	workerPayload  = 6
	workerQueue    = 7
	workerStart    = 8
	workerDeadline = 9

	timestampSeconds = 1
	timestampNanos   = 2
)

const (
	// heartbeatMost is how many turns a heartbeat lists at most: one script writes them all.
	heartbeatMost = 1000

	// heartbeatIDMost is the longest task id that a heartbeat lists. Other programs' ids have no limit.
	heartbeatIDMost = 256
)

// refusedPause is the asynq.Server's pause after a script that failed, in most cases because Redis refused it.
const refusedPause = time.Second

// ServerRedis returns the Redis client for a worker's asynq.Server. It pauses after an error, and
// rewrites the server's heartbeat: asynqmon's Servers page shows the worker, its slots, how many are busy, and its running
// turns instead of the server's maintenance jobs. Turns that wait without a slot are not busy. most is how long a turn may take,
// unable returns why agents cannot be started.
//
// asynq writes the heartbeat every 5 s, for 10 s, and deletes it in the server's Shutdown.
func (m *Maintenance) ServerRedis(slots int, most time.Duration, running func() (claims []*protocol.Claim, busy int), unable func() map[string]string) redis.UniversalClient {
	return serverRedis{m.rdb, m.cfg.Worker, m.cfg.Agent, m.cfg.Agents, m.cfg.Instructable, m.cfg.Programs, slots, most, running, unable}
}

type serverRedis struct {
	redis.UniversalClient
	worker   string
	agent    string
	agents   []string
	takes    []string
	programs bool
	slots    int
	most     time.Duration
	running  func() (claims []*protocol.Claim, busy int)
	unable   func() map[string]string
}

// EvalSha pauses after an error: asynq.Server asks for its next task at once after an error, some
// thousand times a second while Redis is full or lacks a right.
func (r serverRedis) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := r.UniversalClient.EvalSha(ctx, sha, keys, r.heartbeat(keys, args)...)
	if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		select {
		case <-ctx.Done():
		case <-time.After(refusedPause):
		}
	}
	return cmd
}

func (r serverRedis) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return r.UniversalClient.Eval(ctx, script, keys, r.heartbeat(keys, args)...)
}

// heartbeat rewrites the arguments of asynq's heartbeat script: {TTL, ServerInfo, and a name and a
// WorkerInfo for each running task}. Those of other scripts stay.
func (r serverRedis) heartbeat(keys []string, args []any) []any {
	if len(keys) != 2 || !rediskey.IsServer(keys[0]) || len(args) < 2 {
		return args
	}
	info, ok := args[1].([]byte)
	if !ok {
		return args
	}
	claims, busy := r.running()
	identity, server, ok := r.server(info, busy)
	if !ok {
		return args // the page shows asynq's row
	}
	changed := []any{args[0], server}
	for _, c := range claims[:min(len(claims), heartbeatMost)] {
		if worker := workerInfo(c, identity, r.most); worker != nil {
			changed = append(changed, c.Session(), worker) // a session has one turn; asynq reads only the values
		}
	}
	return changed
}

// server returns a ServerInfo with the worker's name, its slots and the number of its busy ones. identity
// has the fields that identify the server. No queue is listed: there is one for each session.
func (r serverRedis) server(info []byte, busy int) (identity, server []byte, ok bool) {
	for len(info) > 0 {
		num, _, n := protowire.ConsumeField(info)
		if n < 0 {
			return nil, nil, false
		}
		switch {
		case num < serverConcurrency:
			identity = append(identity, info[:n]...)
			server = append(server, info[:n]...)
		case num != serverConcurrency && num != serverQueues && num != serverActive:
			server = append(server, info[:n]...)
		}
		info = info[n:]
	}
	server = appendNumber(server, serverConcurrency, int64(r.slots))
	server = appendNumber(server, serverActive, int64(busy))
	server = appendText(server, serverWorker, r.worker)
	if r.agent != "" {
		server = appendText(server, serverAgent, r.agent)
	}
	for _, name := range r.agents {
		server = appendText(server, serverAgents, name)
	}
	for _, name := range r.takes {
		server = appendText(server, serverTakes, name)
	}
	for name, why := range r.unable() {
		server = appendText(server, serverUnable, name+" "+why)
	}
	programs := int64(2)
	if r.programs {
		programs = 1
	}
	return identity, appendNumber(appendNumber(server, serverPrograms, programs), serverLayout, Layout), true
}

// workerInfo returns a WorkerInfo for a running turn, with its queue and the task id of its first
// message. The payload is the turn's id, as in the log. The message may be long, and only readers of
// the session should see it.
func workerInfo(c *protocol.Claim, identity []byte, most time.Duration) []byte {
	turn, taskID := c.Turn(), c.TaskID()
	if taskID == "" || len(taskID) > heartbeatIDMost {
		return nil
	}
	info := slices.Clone(identity)
	info = appendText(info, workerTaskID, taskID)
	info = appendText(info, workerTaskType, wire.TaskType)
	info = appendText(info, workerPayload, fmt.Sprintf(`{"turn":%q}`, turn.ID))
	info = appendText(info, workerQueue, rediskey.Queue(c.Session()))
	info = appendTime(info, workerStart, turn.StartedAt)
	return appendTime(info, workerDeadline, turn.StartedAt.Add(most))
}

func appendText(b []byte, num protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), text)
}

func appendNumber(b []byte, num protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(n))
}

func appendTime(b []byte, num protowire.Number, at time.Time) []byte {
	stamp := appendNumber(nil, timestampSeconds, at.Unix())
	stamp = appendNumber(stamp, timestampNanos, int64(at.Nanosecond()))
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), stamp)
}

// EverySecond returns the periodic jobs that some worker does at least once a second. A job's key
// exists while it is done, and for a tenth of a second afterwards.
func EverySecond() []string { return []string{"due", "reap"} }

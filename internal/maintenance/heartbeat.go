package maintenance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
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

	// serverWorker is a field of ours, with the worker's name: asynq reads past it.
	serverWorker = 1000

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
	// heartbeatMost is how many turns a heartbeat tells of: one script writes them all.
	heartbeatMost = 1000

	// heartbeatIDMost is how long the id of such a turn's message is: another program's
	// may be of any length.
	heartbeatIDMost = 256
)

// ServerRedis is the Redis for the asynq.Server of a worker, whose heartbeat it
// changes: asynqmon's Servers page then shows the worker, with its slots and the turns
// that run, instead of the few maintenance jobs that the server runs itself. All else
// that the server sends goes as it is. A turn may take up to most.
//
// The heartbeat is asynq's: every 5 s, for 10 s, and gone with the server's Shutdown.
func (c *Maintenance) ServerRedis(slots int, most time.Duration, running func() []*protocol.Claim) redis.UniversalClient {
	return serverRedis{c.rdb, c.cfg.Worker, slots, most, running}
}

type serverRedis struct {
	redis.UniversalClient
	worker  string
	slots   int
	most    time.Duration
	running func() []*protocol.Claim
}

func (r serverRedis) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return r.UniversalClient.EvalSha(ctx, sha, keys, r.heartbeat(keys, args)...)
}

func (r serverRedis) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return r.UniversalClient.Eval(ctx, script, keys, r.heartbeat(keys, args)...)
}

// heartbeat is args, but for those of the script that asynq's heartbeat is: {TTL,
// ServerInfo, and for each task that runs a name and its WorkerInfo}.
func (r serverRedis) heartbeat(keys []string, args []any) []any {
	if len(keys) != 2 || !rediskey.IsServer(keys[0]) || len(args) < 2 {
		return args
	}
	info, ok := args[1].([]byte)
	if !ok {
		return args
	}
	holds := r.running()
	identity, server, ok := r.server(info, len(holds))
	if !ok {
		return args // asynq's own row, as it is
	}
	changed := []any{args[0], server}
	for _, h := range holds[:min(len(holds), heartbeatMost)] {
		if worker := workerInfo(h, identity, r.most); worker != nil {
			changed = append(changed, h.Session(), worker) // one turn each; asynq reads the values only
		}
	}
	return changed
}

// server is a ServerInfo with the worker's name, its slots and the number of its turns,
// and the fields that name the server. It names no queue: the sessions' are too many.
func (r serverRedis) server(info []byte, turns int) (identity, server []byte, ok bool) {
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
	server = appendNumber(server, serverActive, int64(turns))
	return identity, appendText(server, serverWorker, r.worker), true
}

// workerInfo is what a heartbeat tells of the turn that runs: its first message's id
// and queue. The payload is not the message, which may be long and is for those who may
// read the session: it is the turn's id, as the log has it.
func workerInfo(h *protocol.Claim, identity []byte, most time.Duration) []byte {
	turn, taskID := h.Turn(), h.TaskID()
	if taskID == "" || len(taskID) > heartbeatIDMost {
		return nil
	}
	info := slices.Clone(identity)
	info = appendText(info, workerTaskID, taskID)
	info = appendText(info, workerTaskType, session.TaskType)
	info = appendText(info, workerPayload, fmt.Sprintf(`{"turn":%q}`, turn.ID))
	info = appendText(info, workerQueue, rediskey.Queue(h.Session()))
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

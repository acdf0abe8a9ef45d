package explore

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqScripts are the scripts by which asynq.Client enqueues a task. In a pipeline, no earlier
// reply can ask for their source.
func asynqScripts() (sources []string) {
	spy := &sourceSpy{}
	rdb := redis.NewClient(&redis.Options{Addr: "explore.invalid:0"})
	defer func() { _ = rdb.Close() }()
	rdb.AddHook(spy)
	client, task := asynq.NewClientFromRedisClient(rdb), asynq.NewTask("any", nil)
	for _, opts := range [][]asynq.Option{nil, {asynq.ProcessIn(time.Minute)}} {
		// The replies do not fit the call, so it fails after its source was sent.
		_, _ = client.EnqueueContext(context.Background(), task, opts...)
	}
	return spy.sources
}

// sourceSpy is a redis.Hook that knows no script and records their sources.
type sourceSpy struct{ sources []string }

func (*sourceSpy) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
}

func (s *sourceSpy) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		switch strings.ToLower(cmd.Name()) {
		case "evalsha":
			cmd.SetErr(noScriptError{})
		case "eval":
			source, _ := cmd.Args()[1].(string)
			s.sources = append(s.sources, source)
		}
		return cmd.Err()
	}
}

func (*sourceSpy) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errors.ErrUnsupported }
}

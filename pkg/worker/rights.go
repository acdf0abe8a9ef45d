package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
)

// probes call every command that a worker needs except BZPOPMIN, without which it gets no message. They fail after Redis
// has checked the right, or leave at most their key behind, which probe deletes.
const probes = `del K|unlink K|exists K|expire K x|expireat K x|pexpire K x|pttl K|strlen K|get K|getrange K 0 0|set K x x|
setex K x x|incr K|incrby K x|hget K x|hset K x x x|hdel K x|hexists K x|hgetall K|hincrby K x x|hmget K x|hlen K|hscan K x|
hstrlen K x|lindex K 0|llen K|lmove K K x x|lpush K x|lrange K 0 0|lrem K x x|ltrim K x x|rpop K|rpoplpush K K|rpush K x|
sadd K x|smismember K x|srem K x|sscan K x|xadd K x x x|xlen K|xtrim K x 0|zpopmin K x|zadd K x x|zcard K|
zcount K x x|zmscore K x|zrange K x x|zrangebylex K x x|zrangebyscore K x x|zrem K x|zremrangebyrank K x x|
zremrangebyscore K x x|zrevrange K x x|zscan K x|zscore K x|scan x|time|publish C x`

// probe makes the calls, and returns the names of the commands that the user may not call. DEL is the first.
var probe = redis.NewScript(`
local missing = {}
for call in string.gmatch(ARGV[1], '[^|\n]+') do
  local args = {}
  for word in string.gmatch(call, '%S+') do
    args[#args + 1] = word == 'K' and KEYS[1] or word == 'C' and ARGV[2] or word
  end
  local got = redis.pcall(unpack(args))
  local said = type(got) == 'table' and got.err or ''
  if string.find(said, 'NOPERM') or string.find(said, 'executing the script can') or string.find(said, 'ACL failure') then
    missing[#missing + 1] = string.upper(args[1])
    if args[1] == 'del' then break end
  end
  redis.pcall('del', KEYS[1])
end
return missing`)

// free is the key of the probes.
var free = rediskey.Timer("rights")

// probedKeys are the keys outside of sessions that a worker writes. Those of its heartbeat are asynq's.
var probedKeys = []string{
	free, rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Names, rediskey.Attention,
	rediskey.Unlisted, rediskey.Waiting, rediskey.Scan, rediskey.Outbox, rediskey.Destinations, rediskey.Tokens(time.Time{}),
	rediskey.AllQueues, rediskey.Servers,
}

// checkTimeout bounds the check: a subscription has no deadline of its own.
const checkTimeout = 10 * time.Second

// checkRights returns an error that names what the Redis user may not do. Older rules may lack a right that this version
// needs, and without this check the first message would fail. It changes no session. It does not check which sessions the
// user may reach, nor asynq's own keys. Of a Cluster it asks the nodes of these keys.
func checkRights(ctx context.Context, rdb redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, check := range []func(context.Context, redis.UniversalClient) ([]string, error){lacksKeys, lacksSignals, lacksCommands} {
		lacks, err := check(ctx, rdb)
		if err != nil {
			return err
		}
		if len(lacks) > 0 {
			slices.Sort(lacks)
			return fmt.Errorf("%w: it lacks %s; give it the rights of docs/security.md", redisconn.ErrRights, strings.Join(slices.Compact(lacks), ", "))
		}
	}
	return nil
}

// lacksKeys returns the keys that the user may not write, and the commands that scripts do not call.
func lacksKeys(ctx context.Context, rdb redis.UniversalClient) (lacks []string, err error) {
	calls := [][]any{{"eval", "return 1", 0}, {"evalsha", "x", 0}}
	for _, key := range probedKeys {
		calls = append(calls, []any{"expire", key, "x"}) // no number, so nothing is set
	}
	got := make([]*redis.Cmd, len(calls))
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, args := range calls {
			got[i] = p.Do(ctx, args...)
		}
		return nil
	})
	for i, args := range calls {
		var reply redis.Error
		switch err := got[i].Err(); {
		case err != nil && !errors.As(err, &reply):
			return nil, err
		case redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), "access"):
			lacks = append(lacks, fmt.Sprint("the key ", args[1]))
		case redis.HasErrorPrefix(err, "NOPERM"):
			lacks = append(lacks, strings.ToUpper(fmt.Sprint(args[0])))
		}
	}
	return lacks, nil
}

func lacksSignals(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	sub := rdb.Subscribe(ctx, rediskey.Signal("rights"))
	defer func() { _ = sub.Close() }()
	_, err := sub.ReceiveTimeout(ctx, checkTimeout)
	if redis.HasErrorPrefix(err, "NOPERM") {
		return []string{"SUBSCRIBE to the channels " + rediskey.Signal("*")}, nil
	}
	return nil, err
}

func lacksCommands(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	return probe.Run(ctx, rdb, []string{free}, probes, rediskey.Signal("rights")).StringSlice()
}

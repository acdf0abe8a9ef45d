package rights

import (
	"time"

	"turnstile/internal/protocol/rediskey"
)

// Worker is a worker's role. It needs BZPOPMIN, too, which has no probe: without it the worker gets no message.
var Worker = Role{
	free: rediskey.Timer("rights"),
	calls: `del K|unlink K|exists K|expire K x|expireat K x|pexpire K x|pttl K|strlen K|get K|getrange K 0 0|set K x x|
setex K x x|incr K|incrby K x|hget K x|hset K x x x|hdel K x|hexists K x|hgetall K|hincrby K x x|hmget K x|hlen K|hscan K x|
hstrlen K x|lindex K 0|llen K|lmove K K x x|lpush K x|lrange K 0 0|lrem K x x|ltrim K x x|rpop K|rpoplpush K K|rpush K x|
sadd K x|smismember K x|srem K x|sscan K x|xadd K x x x|xlen K|xrevrange K x x|xtrim K x 0|zpopmin K x|zadd K x x|zcard K|
zcount K x x|zmscore K x|zrange K x x|zrangebylex K x x|zrangebyscore K x x|zrem K x|zremrangebyrank K x x|
zremrangebyscore K x x|zrevrange K x x|zscan K x|zscore K x|scan x|time|publish C x`,
	keys: written(
		rediskey.Timer("rights"), rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Names, rediskey.Attention,
		rediskey.Unlisted, rediskey.Waiting, rediskey.Scan, rediskey.Outbox, rediskey.Destinations, rediskey.Tokens(time.Time{}),
		rediskey.AllQueues, rediskey.Servers, rediskey.Processes, rediskey.Sorted,
	),
}

// Gateway is a gateway's role.
var Gateway = Role{
	free: rediskey.For(" ").State(), // a blank is no valid session key
	calls: `del K|unlink K|exists K|expire K x|pttl K|get K|set K x x|incrby K x|hget K x|hset K x x x|hdel K x|hexists K x|
hgetall K|hincrby K x x|hkeys K|hlen K|hmget K x|hscan K x|hstrlen K x|lindex K 0|llen K|lpos K x|lpush K x|lrange K 0 0|lrem K x x|
ltrim K x x|renamenx K K|rpop K|rpush K x|sadd K x|srem K x|sscan K x|xadd K x x x|xlen K|xrange K x x|xread streams K x|
xrevrange K x x|xtrim K x 0|zadd K x x|zcard K|zcount K x x|zmscore K x|zpopmin K x|zrange K x x|zrangebylex K x x|
zrangebyscore K x x|zrank K x|zrem K x|zremrangebyrank K x x|zremrangebyscore K x x|zrevrange K x x|zrevrank K x|zscan K x|zscore K x|
scan x|time|publish C x`,
	keys: append(written(
		rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Names, rediskey.Attention, rediskey.Unlisted,
		rediskey.Outbox, rediskey.Destinations, rediskey.Routes, rediskey.Temporary, rediskey.AllQueues, rediskey.Processes, rediskey.Sorted,
	),
		[]any{"eval", "return 1", 1, rediskey.Waiting}, []any{"evalsha", "x", 1, rediskey.Waiting},
		[]any{"hmget", rediskey.Waiting, "x"}, []any{"hincrby", rediskey.Waiting, "x", "x"},
		[]any{"setex", rediskey.Ticket("rights"), "x", "x"}, []any{"getdel", rediskey.Ticket("rights")},
		[]any{"exists", rediskey.Timer("rights")}, []any{"exists", rediskey.Tokens(time.Time{})}, []any{"exists", rediskey.Servers},
	),
}

// written are calls for keys that a program reads and writes by many commands.
func written(keys ...string) (calls [][]any) {
	for _, key := range keys {
		calls = append(calls, []any{"expire", key, "x"}) // no number, so nothing is set
	}
	return calls
}

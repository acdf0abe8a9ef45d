-- What the end of a turn and the beginning of the next one have to leave in Redis,
-- and nothing else: one look at the sentinel, no other question.
--
-- KEYS sentinel, run, pending, active, lease, completed, transcript, events
-- ARGV prefix of the tasks, token, id, message, result, start, fence, now,
--      end of the lease, end of the retention, entries

local call, id, task = redis.call, ARGV[3], ARGV[1]
if call('GET', KEYS[1]) ~= ARGV[2] then return redis.error_reply('the sentinel is gone') end
call('LREM', KEYS[4], '1', id)
call('ZREM', KEYS[5], id)
call('ZADD', KEYS[6], ARGV[10], id)
call('HSET', task .. id, 'state', 'completed', 'result', ARGV[5], 'msg', ARGV[4])
call('RPUSH', KEYS[7], unpack(ARGV, 11))
call('XADD', KEYS[8], '*', 's', ARGV[6], 'e', ARGV[5])
local following = call('RPOPLPUSH', KEYS[3], KEYS[4])
if not following then
  call('DEL', KEYS[1])
  return
end
call('ZADD', KEYS[5], ARGV[9], following)
call('HSET', task .. following, 'state', 'active', 'seen', ARGV[8])
call('HSET', KEYS[2], 'fence', ARGV[7], 'ids', following, 'started_at', ARGV[8])
return {following, call('HGET', task .. following, 'msg')}

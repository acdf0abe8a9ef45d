-- Releases the lock, or hands it to the next waiter. The sentinel is renamed,
-- not deleted: for the rest of its TTL it says who released last. A token that
-- waits leaves the line. Any other token writes nothing. free.lua comes before
-- it and has the names of KEYS and ARGV.
--
-- KEYS sentinel run waiters waiting released
-- ARGV token
--      may_wait  1: the token may be in the line
-- returns 1: this script released the lock, or did so when it was sent before;
--         0: the token did not have the lock
if not mine then
  local before = redis.call('GET', released) == token
  if may_wait == '1' and redis.call('HEXISTS', waiting, token) == 1 then
    redis.call('ZREM', waiters, token)
    redis.call('HDEL', waiting, token)
  end
  return before and 1 or 0
end
local record = redis.call('GET', run)
local now = clock()
redis.call('ZCARD', waiters)
redis.call('HLEN', waiting) -- a key of a wrong type fails here, before any write

redis.call('RENAME', sentinel, released)
pass_on(sentinel, run, waiters, waiting, fence_after(record, now), now)
return 1

-- Frees the lock, or hands it to the next waiter. The sentinel is not deleted
-- but renamed, so it goes on telling for the rest of its TTL who released last.
-- Under a token that waits: it leaves the line. Under any other token it
-- writes nothing.
--
-- KEYS 1 sentinel, 2 run, 3 waiters, 4 waiting, 5 released
-- ARGV 1 token
--      2 1: the token may be in the line
-- returns 1: this script released the lock, or did when it was sent before;
--         0: the token did not have the lock
if not mine then
  local before = redis.call('GET', released) == token
  if ARGV[2] == '1' and redis.call('HEXISTS', waiting, token) == 1 then
    redis.call('ZREM', waiters, token)
    redis.call('HDEL', waiting, token)
  end
  return before and 1 or 0
end
local record = redis.call('GET', run)
local now = clock()
redis.call('ZCARD', waiters)
redis.call('HLEN', waiting) -- what is of a wrong type fails here, before any write

redis.call('RENAME', sentinel, released)
pass_on(sentinel, run, waiters, waiting, fence_after(record, now), now)
return 1

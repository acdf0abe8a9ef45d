-- acquire, the usual case: the lock is free, nobody waits, and the clock is
-- ahead of the last fence. It stands before everything else, so that it pays
-- for nothing else; otherwise acquire.lua goes on. For the formats see hold.lua.
local sentinel, run, waiters, waiting = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, owner, ttl, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local record = redis.call('GET', run)
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
if redis.call('EXISTS', sentinel, waiters) == 0 and (not record or string.sub(record, 1, 16) < now) then
  redis.call('SET', sentinel, token, 'PX', ttl)
  redis.call('SET', run, now .. ' ' .. now .. ' held ' .. token .. ' ' .. owner, 'PX', keep)
  return now
end

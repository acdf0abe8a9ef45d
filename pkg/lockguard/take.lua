-- acquire, the fast path: the lock is free, nobody waits, and the clock is
-- ahead of the last fence. It comes before the prelude, whose definitions it
-- does not pay for. In any other case acquire.lua follows. grant.lua has the
-- formats.
local sentinel, run, waiters, waiting = unpack(KEYS)
local token, owner, ttl, record_ttl, channel, counted, place = unpack(ARGV)

local record = redis.call('GET', run)
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
if redis.call('EXISTS', sentinel, waiters) == 0 and (not record or string.sub(record, 1, 16) < now) then
  redis.call('SET', sentinel, token, 'PX', ttl)
  redis.call('SET', run, now .. ' ' .. now .. ' held ' .. token .. ' ' .. owner, 'PX', record_ttl)
  return now
end

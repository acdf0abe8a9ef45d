-- What a holder leaves in Redis. It comes between the prelude and the scripts that
-- give the lock to somebody.
--
-- sentinel  STRING token, with the TTL
-- run       STRING 'fence since held token owner', since in Redis' us; earlier
--           versions wrote another word for held. It outlives the last holder by
--           an hour, and keeps the fence.
--
-- Fences and times are microseconds here: a loop can take one lock several
-- times in a millisecond, and would leave a clock in milliseconds behind. They
-- are handled as text of 16 digits. That, and one STRING instead of a HASH, is
-- what halves the cost of the scripts.

-- Redis' clock in microseconds, as text.
local function clock()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end

-- The fence that follows the one in the record, as text.
local function fence_after(record, now)
  return int(next_fence(string.match(record or '', '^%d+'), tonumber(now)))
end

-- Gives the lock to token, for ttl ms; the record lasts keep ms. The sentinel
-- comes first: a full Redis refuses it.
local function give(sentinel, run, token, owner, fence, now, ttl, keep)
  redis.call('SET', sentinel, token, 'PX', ttl)
  redis.call('SET', run, fence .. ' ' .. now .. ' held ' .. token .. ' ' .. owner, 'PX', keep)
end

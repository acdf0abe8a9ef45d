-- The record of a lock's holder. It stands between the prelude and the scripts
-- that grant the lock.
--
-- sentinel  STRING token, with the TTL
-- run       STRING 'fence since held token owner', since in us of Redis' clock;
--           earlier versions wrote another word for held. It outlives the last
--           holder by an hour, and keeps the fence.
--
-- Fences and times are microseconds: a loop can take one lock several times in
-- a millisecond, and its fence would overtake a clock in milliseconds. They are
-- handled as text of 16 digits. That, and one STRING instead of a HASH, halves
-- the cost of the scripts.

-- Redis' clock in microseconds, as text.
local function clock()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end

-- The fence that follows the one in the record, as text.
local function fence_after(record, now)
  return int(next_fence(string.match(record or '', '^%d+'), tonumber(now)))
end

-- Grants the lock to token for ttl ms. The record lasts record_ttl ms. The
-- sentinel comes first: a full Redis refuses it.
local function grant(sentinel, run, token, owner, fence, now, ttl, record_ttl)
  redis.call('SET', sentinel, token, 'PX', ttl)
  redis.call('SET', run, fence .. ' ' .. now .. ' held ' .. token .. ' ' .. owner, 'PX', record_ttl)
end

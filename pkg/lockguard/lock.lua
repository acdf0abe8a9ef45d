-- Takes, renews, releases and shows a lock. A call that is sent again after a
-- lost reply returns the same and changes nothing but the TTL.
--
-- KEYS sentinel  STRING the holder's token, for the TTL
--      run       STRING 'fence since held token owner' of the last holder; since
--                in us. It keeps the fence for an hour longer than the TTL.
--      waiters   ZSET token -> place: the first has the lowest
--      waiting   HASH token -> registration: 'until ttl counted channel owner'
--                until    us, after which the waiter counts as dead
--                ttl      ms for which it will get the lock
--                counted  1: PUBLISH returns how many listen on the channel;
--                         0: it cannot know (Redis Cluster)
--      released  STRING token that released last, for the rest of its TTL
-- ARGV action  acquire, renew, release, holder
--      token
--      for acquire and renew:  ttl, ms
--      for acquire:            owner
--      to wait in line:        channel, counted, place: that an earlier call
--                              returned, 0 at first
-- returns
--   acquire  fence: the token has the lock, for a full ttl
--            {holder, run, left, place, ahead}: another has it; left in ms,
--            negative for ever; ahead: how many wait before the token
--   renew    1; 0: the token does not have the lock
--   release  1: released, by this call or an earlier one; 0: the token did not
--            have the lock. It has left the line
--   holder   {holder, run, left, how many wait}, {} if nobody has it
--
-- Fences and times are us of Redis' clock, as text of 16 digits: a loop can take
-- one lock several times in a millisecond, and its fence would overtake a clock
-- in milliseconds. The ordinary cases return before any function is defined:
-- each definition costs time in every call.
local sentinel, run, waiters, waiting, released = unpack(KEYS)
local action, token, ttl, owner, channel, counted, place = unpack(ARGV)

-- How much longer than the TTL the record lasts, ms.
local longer = 3600000
-- How long a waiter keeps its place while nobody listens for it, us. If it
-- lives, it connects again, and then calls acquire again.
local grace = 3000000

local holder
if action ~= 'acquire' then
  holder = redis.call('GET', sentinel)
  if action == 'holder' then
    if not holder then return {} end
    return {holder, redis.call('GET', run) or '', redis.call('PTTL', sentinel), redis.call('ZCARD', waiters)}
  elseif action == 'renew' then
    if holder ~= token then return 0 end
    redis.call('PEXPIRE', sentinel, ttl)
    redis.call('PEXPIRE', run, ttl + longer)
    return 1
  elseif holder ~= token then
    local before = redis.call('GET', released) == token
    if redis.call('HEXISTS', waiting, token) == 1 then
      redis.call('ZREM', waiters, token)
      redis.call('HDEL', waiting, token)
    end
    return before and 1 or 0
  elseif redis.call('EXISTS', waiters) == 0 then
    redis.call('RENAME', sentinel, released)
    return 1
  end
end

local record, time = redis.call('GET', run), redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
if action == 'acquire' then
  if redis.call('EXISTS', sentinel, waiters) == 0 and (not record or string.sub(record, 1, 16) < now) then
    redis.call('SET', sentinel, token, 'PX', ttl)
    redis.call('SET', run, now .. ' ' .. now .. ' held ' .. token .. ' ' .. owner, 'PX', ttl + longer)
    return now
  end
  holder = redis.call('GET', sentinel)
end

local last = string.match(record or '', '^%d+')
if action == 'acquire' and holder == token then
  redis.call('PEXPIRE', sentinel, ttl)
  redis.call('PEXPIRE', run, ttl + longer)
  return last or now
end
redis.call('ZCARD', waiters)
redis.call('HLEN', waiting) -- a key of a wrong type fails here, before any write

local fence = string.format('%d', math.max((tonumber(last) or 0) + 1, tonumber(now)))

local function grant(to, name, life)
  holder, record = to, fence .. ' ' .. now .. ' held ' .. to .. ' ' .. name
  redis.call('SET', sentinel, to, 'PX', life)
  redis.call('SET', run, record, 'PX', life + longer)
end

-- Grants the lock to the first waiter that lives and listens. asker need not
-- listen, because this script's result tells it. There was a write before, so a
-- server that refuses writes fails the script before a waiter is notified.
local function pass_on(asker)
  local at = 0
  while true do
    local first = redis.call('ZRANGE', waiters, at, at)[1]
    if not first then return end
    local ends, rest, life, sees, hears, name = string.match(redis.call('HGET', waiting, first) or '', '^(%d+)( (%d+) (%d) (%S+) (.*))$')
    local alive = ends and (first == asker or tonumber(ends) > tonumber(now))
    local notified = alive and (first == asker or redis.call('PUBLISH', hears, first .. ' ' .. fence) > 0 or sees == '0')
    if notified or not alive then
      redis.call('ZREM', waiters, first)
      redis.call('HDEL', waiting, first)
    end
    if notified then return grant(first, name, life) end
    if alive then
      if tonumber(ends) > now + grace then
        redis.call('HSET', waiting, first, string.format('%d', now + grace) .. rest)
      end
      at = at + 1
    end
  end
end

if action == 'release' then
  -- Renamed, not deleted: for the rest of its TTL it says who released last.
  redis.call('RENAME', sentinel, released)
  pass_on()
  return 1
end

if not holder then -- the holder died, or the clock is behind the last fence
  redis.call('SET', sentinel, token, 'PX', ttl) -- a full Redis refuses it
  pass_on(token)
  if not holder then grant(token, owner, ttl) end
  if holder == token then return fence end
end

local ahead = 0
if channel then
  local known = redis.call('ZSCORE', waiters, token)
  place = tonumber(known or place)
  if place == 0 then
    local newest = redis.call('ZRANGE', waiters, -1, -1, 'WITHSCORES')
    place = math.max(tonumber(newest[2] or 0) + 1, tonumber(now))
  end
  if not known then redis.call('ZADD', waiters, string.format('%d', place), token) end
  redis.call('HSET', waiting, token, table.concat({string.format('%d', now + ttl * 1000), ttl, counted, channel, owner}, ' '))
  redis.call('PEXPIRE', waiters, ttl + longer)
  redis.call('PEXPIRE', waiting, ttl + longer)
  ahead = redis.call('ZRANK', waiters, token)
end
return {holder, record or '', redis.call('PTTL', sentinel), place or 0, ahead}

-- Takes the lock if it is free and nobody waits for it. Otherwise it joins the
-- line, if it has a channel. Repeated under the token that has the lock or is
-- in the line, it returns the same; in the line it also renews the registration.
-- take.lua comes before it and has the names of KEYS and ARGV.
--
-- KEYS sentinel run waiters waiting
-- ARGV token owner
--      ttl         ms
--      record_ttl  ms
--      and only to join the line:
--      channel     on which the waiter's process listens
--      counted     see line.lua
--      place       that an earlier call returned, 0 at first
-- returns fence: the token has the lock, for a full ttl
--         {fence, left}: the token had it before; left: ms
--         {fence, left, owner, since, place, ahead}: another has it; left is
--         negative for ever; since is in us; owner and since are empty if
--         unknown, the fence is then the last known one; place is 0 outside the
--         line; ahead: how many wait before the token
local fence = fence_after(record, now)

local holder = redis.call('GET', sentinel)
local last, since, held_by, holders_owner = string.match(record or '', '^(%d+) (%d+) %a+ (%S+) (.*)$')
if holder == token then
  return {last or '0', redis.call('PTTL', sentinel)}
end
redis.call('ZCARD', waiters)
redis.call('HLEN', waiting) -- a key of a wrong type fails here, before any write

if not holder then
  -- Somebody waits, and nobody released: the holder died. A full Redis refuses
  -- this SET, before a waiter is notified.
  redis.call('SET', sentinel, token, 'PX', ttl)
  local chosen
  chosen, holders_owner = pass_on(sentinel, run, waiters, waiting, fence, now, token)
  if not chosen then
    chosen = token
    grant(sentinel, run, token, owner, fence, now, ttl, record_ttl)
  end
  if chosen == token then
    return fence
  end
  last, since = fence, now
elseif held_by ~= holder then
  last, since, holders_owner = last or '0', '', ''
end

local ahead = 0
if channel then
  local known = redis.call('ZSCORE', waiters, token)
  place = tonumber(known or place)
  if place == 0 then
    local newest = redis.call('ZRANGE', waiters, -1, -1, 'WITHSCORES')
    place = math.max(tonumber(newest[2] or 0) + 1, tonumber(now))
  end
  if not known then
    redis.call('ZADD', waiters, int(place), token)
  end
  redis.call('HSET', waiting, token, table.concat({int(now + ttl * 1000), ttl, counted, channel, owner}, ' '))
  redis.call('PEXPIRE', waiters, record_ttl)
  redis.call('PEXPIRE', waiting, record_ttl)
  ahead = redis.call('ZRANK', waiters, token)
end
return {last, redis.call('PTTL', sentinel), holders_owner, since, int(place or 0), ahead}

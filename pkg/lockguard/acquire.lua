-- Takes the lock if it is free and nobody waits for it; else may join the line.
-- Repeated under the token that has the lock or is in the line it returns the
-- same; a repetition in the line also renews the registration.
--
-- KEYS 1 sentinel, 2 run, 3 waiters, 4 waiting
-- ARGV 1 token, 2 owner
--      3 ttl, ms
--      4 keep, ms: how long the record lasts
--      and only to join the line:
--      5 channel to be told on
--      6 counted, see line.lua
--      7 place that an earlier call returned, 0 at first
-- returns fence: the lock is the token's, for a full ttl
--         {fence, ms left}: it was the token's already
--         {fence, ms left (negative: for ever), owner, since us, place, how many are ahead}:
--         it is another's; owner and since are empty if unknown, the fence is then
--         the last known one; place is 0 if not in the line
local channel = ARGV[5]
local fence = fence_after(record, now)

local holder = redis.call('GET', sentinel)
local last, since, held_by, holders_owner = string.match(record or '', '^(%d+) (%d+) %a+ (%S+) (.*)$')
if holder == token then
  return {last or '0', redis.call('PTTL', sentinel)}
end
redis.call('ZCARD', waiters)
redis.call('HLEN', waiting) -- what is of a wrong type fails here, before any write

if not holder then
  -- Somebody waits, and nobody released: whoever held it died. The SET asks a
  -- full Redis before anybody is told.
  redis.call('SET', sentinel, token, 'PX', ttl)
  local chosen
  chosen, holders_owner = pass_on(sentinel, run, waiters, waiting, fence, now, token)
  if not chosen then
    chosen = token
    give(sentinel, run, token, owner, fence, now, ttl, keep)
  end
  if chosen == token then
    return fence
  end
  last, since = fence, now
elseif held_by ~= holder then
  last, since, holders_owner = last or '0', '', ''
end

local place, ahead = 0, 0
if channel then
  local known = redis.call('ZSCORE', waiters, token)
  place = tonumber(known or ARGV[7])
  if place == 0 then
    local newest = redis.call('ZRANGE', waiters, -1, -1, 'WITHSCORES')
    place = math.max(tonumber(newest[2] or 0) + 1, tonumber(now))
  end
  if not known then
    redis.call('ZADD', waiters, int(place), token)
  end
  redis.call('HSET', waiting, token, table.concat({int(now + ttl * 1000), ttl, ARGV[6], channel, owner}, ' '))
  redis.call('PEXPIRE', waiters, keep)
  redis.call('PEXPIRE', waiting, keep)
  ahead = redis.call('ZRANK', waiters, token)
end
return {last, redis.call('PTTL', sentinel), holders_owner, since, int(place), ahead}

-- Returns who holds the lock. Writes nothing.
--
-- KEYS sentinel run waiters
-- returns {} if it is free
--         {fence, left, owner, since, waiting}: left is in ms, negative for
--         ever; since is in us; waiting: how many wait. fence is 0, and owner
--         and since are empty, if unknown
local sentinel, run, waiters = unpack(KEYS)

local holder = redis.call('GET', sentinel)
if not holder then
  return {}
end
local fence, since, token, owner = string.match(redis.call('GET', run) or '', '^(%d+) (%d+) %a+ (%S+) (.*)$')
if token ~= holder then
  fence, since, owner = '0', '', ''
end
return {fence, redis.call('PTTL', sentinel), owner, since, redis.call('ZCARD', waiters)}

-- Who holds the lock. Writes nothing.
--
-- KEYS 1 sentinel, 2 run, 3 waiters
-- returns {} if it is free, else
--         {fence, ms left (negative: for ever), owner, since us, how many wait};
--         fence 0, and owner and since empty, if unknown
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {}
end
local fence, since, token, owner = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+) %a+ (%S+) (.*)$')
if token ~= holder then
  fence, since, owner = '0', '', ''
end
return {fence, redis.call('PTTL', KEYS[1]), owner, since, redis.call('ZCARD', KEYS[3])}

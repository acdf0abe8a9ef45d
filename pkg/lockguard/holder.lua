-- Who holds the lock. Writes nothing.
--
-- KEYS 1 sentinel, 2 run, 3 waiters
-- answer {} if it is free, else
--        {fence, ms left (negative: for ever), owner, since us, phase, how many wait};
--        fence 0 and the next three empty if unknown
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {}
end
local fence, since, phase, token, owner = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+) (%a+) (%S+) (.*)$')
if token ~= holder then
  fence, since, phase, owner = '0', '', '', ''
end
return {fence, redis.call('PTTL', KEYS[1]), owner, since, phase, redis.call('ZCARD', KEYS[3])}

-- index_due: the members of an index whose time has come. Reads only.
--
-- KEYS[1] the index
-- ARGV[1] batch
--
-- Answers {now, score of the first that is not due yet or 0, {member, score ...}}.

local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {now, tonumber(later[2] or 0), due}

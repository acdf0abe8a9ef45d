-- index_due: returns the due members of an index. Writes nothing.
--
-- KEYS index
-- ARGS
--   batch int    how many at most
-- RETURNS
--   result: now:int next:int due:list     next: score of the first that is not due yet, or 0; due: member, score ...

local now = now_ms()
local due = call('ZRANGEBYSCORE', s.index, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, batch)
local later = call('ZRANGEBYSCORE', s.index, '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return result{now = now, next = tonumber(later[2] or 0), due = due}

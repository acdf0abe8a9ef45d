-- admit: returns whether one more message may wait in all sessions together, by the workers' last
-- count (Trim). If no worker has counted for a minute, none runs turns either: then each message
-- that is let in here is added to the count.
--
-- KEYS waiting
--   count: messages that wait; at: when they were counted, ms
-- ARGS
--   most number      how many may wait
-- RETURNS
--   result: may      1: it may

local STALE = 60000 -- ms
local w = fields(s.waiting, 'count', 'at')
local count, at = tonumber(w.count) or 0, tonumber(w.at) or 0
if count >= most then return result{may = 0} end
if now_ms() - at > STALE then call('HINCRBY', s.waiting, 'count', 1) end
return result{may = 1}

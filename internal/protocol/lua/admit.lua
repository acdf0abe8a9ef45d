-- admit: returns whether one more message may wait in all sessions together, by the workers' last
-- count (Trim). If no worker has counted for a minute, none runs turns either: then each admitted
-- message is added to the count. Senders may write the key: an unreadable count is ignored, until
-- the workers' next one replaces it.
--
-- KEYS waiting
--   count: messages that wait; at: when they were counted, ms
-- ARGS
--   most number      how many may wait
-- RETURNS
--   result: may:flag      1: it may

local STALE = 60000 -- ms
local w = pcall('HMGET', s.waiting, 'count', 'at')
if w.err then return result{may = 1} end -- the key has another type
local count, at = tonumber(w[1]) or 0, tonumber(w[2]) or 0
if count >= most then return result{may = 0} end
if math.abs(now_ms() - at) > STALE then pcall('HINCRBY', s.waiting, 'count', 1) end
return result{may = 1}

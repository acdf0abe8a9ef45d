-- admit: whether one more message may wait in all sessions together, as far as that is known: by the workers'
-- last count (Trim). Where no worker has counted for a minute, and so nothing is run either, the messages
-- that are let in here are added to that.
--
-- KEYS waiting
--   what waits: count, and when it was counted, ms
-- ARGS
--   most number      how many may
-- RETURNS
--   result: may      1: it may

local STALE = 60000 -- ms
local w = fields(s.waiting, 'count', 'at')
local count, at = tonumber(w.count) or 0, tonumber(w.at) or 0
if count >= most then return result{may = 0} end
if now_ms() - at > STALE then call('HINCRBY', s.waiting, 'count', 1) end
return result{may = 1}

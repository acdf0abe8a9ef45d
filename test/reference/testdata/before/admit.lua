-- admit: whether one more message may wait in all sessions together, as far as that is
-- known: by the workers' last count (Trim). Where no worker has counted for a minute,
-- and so nothing is run either, the messages that are let in here are added to that.
--
-- KEYS[1] what waits: count, and when it was counted, ms
-- ARGV[1] how many may
--
-- Answers 1: it may, or 0.

local STALE = 60000 -- ms
local w = redis.call('HMGET', KEYS[1], 'count', 'at')
local count, at = tonumber(w[1]) or 0, tonumber(w[2]) or 0
if count >= tonumber(ARGV[1]) then return 0 end
if now_ms() - at > STALE then redis.call('HINCRBY', KEYS[1], 'count', 1) end
return 1

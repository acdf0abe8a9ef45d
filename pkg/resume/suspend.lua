-- suspend: the next message begins another transcript. A mark stays, without
-- effect.
--
-- KEYS record resume run
--
-- Returns 1; 0, and writes nothing, if the session is unknown. special in the
-- run record tells the fast path that there is a resume record.
local record, resume, run = unpack(KEYS)

if redis.call('EXISTS', record) == 0 then return 0 end
redis.call('HSET', run, 'special', '1')
redis.call('HSET', resume, 'suspended', '1')
return 1

-- suspend: the next message begins another transcript. A mark stays, without effect.
--
-- KEYS[1] the session's own record
-- KEYS[2] its resume record
-- KEYS[3] its run record, by which the fast path knows that there is the other one
--
-- Returns 1, or 0 where nothing is written: the session is unknown.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[3], 'special', '1')
redis.call('HSET', KEYS[2], 'suspended', '1')
return 1

-- suspend: the next message begins another transcript. A mark stays, unheeded.
--
-- KEYS[1] the session's own record
-- KEYS[2] its resume record
-- KEYS[3] its run record, which tells plain turns that there is the other one
--
-- Answers 1, or 0 where nothing is written: the session is unknown.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[3], 'special', '1')
redis.call('HSET', KEYS[2], 'suspended', '1')
return 1

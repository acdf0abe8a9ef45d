-- clear: takes the mark away. Counter, fence and suspension stay.
--
-- KEYS[1] the session's resume record
--
-- Returns 1, or 0 where there was no mark.

if redis.call('HGET', KEYS[1], 'pending') ~= '1' then return 0 end
redis.call('HDEL', KEYS[1], 'pending', 'reason', 'marked_at')
return 1

-- clear: deletes the resume mark. Counter, fence and suspension stay.
--
-- KEYS resume
--
-- Returns 1; 0 if there was no mark.
local resume = unpack(KEYS)

if redis.call('HGET', resume, 'pending') ~= '1' then return 0 end
redis.call('HDEL', resume, 'pending', 'reason', 'marked_at')
return 1

-- mark: the session's last turn was interrupted. The counter of interruptions
-- stays: the script that interrupts a turn raises it.
--
-- KEYS record resume run
-- ARGV reason
--
-- Returns 1; 0, and writes nothing, if the session is unknown or suspended.
-- special in the run record tells the fast path that there is a resume record.
local record, resume, run = unpack(KEYS)
local reason = unpack(ARGV)

if redis.call('EXISTS', record) == 0 or redis.call('HGET', resume, 'suspended') == '1' then return 0 end
redis.call('HSET', run, 'special', '1')
redis.call('HSET', resume, 'pending', '1', 'reason', reason, 'marked_at', int(now_ms()))
return 1

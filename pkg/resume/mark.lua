-- mark: the session's last turn was interrupted. The counter of interruptions is
-- raised by who interrupts a turn, not here.
--
-- KEYS[1] the session's own record      ARGV[1] reason
-- KEYS[2] its resume record
-- KEYS[3] its run record, by which the fast path knows that there is the other one
--
-- Returns 1, or 0 where nothing is written: the session is unknown or suspended.

if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HGET', KEYS[2], 'suspended') == '1' then return 0 end
redis.call('HSET', KEYS[3], 'special', '1')
redis.call('HSET', KEYS[2], 'pending', '1', 'reason', ARGV[1], 'marked_at', int(now_ms()))
return 1

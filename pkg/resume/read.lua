-- read: a session's resume record, with the time to tell the mark's age by.
--
-- KEYS[1] the record
--
-- Returns {now, ms; {field, value, ...}}.

return {now_ms(), redis.call('HGETALL', KEYS[1])}

-- read: a session's resume record, and the time, which gives the mark's age.
--
-- KEYS resume
--
-- Returns {now, record}: now in ms; record is {field, value, ...}.
local resume = unpack(KEYS)

return {now_ms(), redis.call('HGETALL', resume)}

-- outbox_due: takes sessions from the index of the outbox whose time has come: their next time is
-- that of a deliverer that dies with them.
--
-- KEYS index
-- ARGS
--   batch int       how many at most
--   hidden number   for how long nobody else takes them, ms
-- RETURNS
--   result: now:int at:int sessions:list     at: their new score

local now = now_ms()
local due, scores = call('ZRANGEBYSCORE', s.index, '-inf', int(now), 'LIMIT', '0', batch), {}
local at = int(now + hidden)
for _, session in ipairs(due) do
  scores[#scores + 1], scores[#scores + 2] = at, session
end
if #scores > 0 then call('ZADD', s.index, 'XX', unpack(scores)) end
return result{now = now, at = tonumber(at), sessions = due}

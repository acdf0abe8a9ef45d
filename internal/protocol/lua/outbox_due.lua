-- outbox_due: takes due sessions from the index of the outbox. Their new score is when another
-- deliverer takes them if this one dies.
--
-- KEYS index
-- ARGS
--   batch int       how many at most
--   hidden number   how long no other call takes them, ms
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

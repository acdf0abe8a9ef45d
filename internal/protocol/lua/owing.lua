-- owing: counts a session's undelivered outcomes by destination. Writes nothing, and reads about
-- 1,000 records in a call. No count exceeds the number of the session's fields: a sender's Redis
-- user may have written any number, and could close a capped destination to others.
--
-- KEYS owed outbox deliveries
-- ARGS
--   cursor      '0', or that of the last call
-- RETURNS
--   result: cursor lines:line     cursor: '0' if there is nothing further
--   line: to n:int oldest:int        oldest: when the first record was stored, ms, or 0

local most = call('HLEN', s.owed) + call('HLEN', s.deliveries)
local found = call('HSCAN', s.deliveries, cursor, 'MATCH', 'n *', 'COUNT', '1000')
local lines = {}
for i = 1, #found[2], 2 do
  local to = string.sub(found[2][i], 3)
  local first = line_records(s, to, 1)[1]
  local n = math.max(0, math.min(tonumber(found[2][i + 1]) or 0, most))
  lines[#lines + 1] = line{to = to, n = n, oldest = first and tonumber(string.match(first, '%d+$')) or 0}
end
return result{cursor = found[1], lines = lines}

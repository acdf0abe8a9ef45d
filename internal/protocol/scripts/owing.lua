-- Code generated from ../lua/owing.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_owed, s_outbox, s_deliveries = KEYS[1], KEYS[2], KEYS[3]

-- line_records(s, to, most) returns the first members of s.outbox for a destination.
local function line_records(s_outbox, to, most)
  return call('ZRANGEBYLEX', s_outbox, '[' .. to .. ' ', '[' .. to .. ' \255', 'LIMIT', '0', most)
end

local cursor = ARGV[1]

local most = call('HLEN', s_owed) + call('HLEN', s_deliveries)
local found = call('HSCAN', s_deliveries, cursor, 'MATCH', 'n *', 'COUNT', '1000')
local lines = {}
for i = 1, #found[2], 2 do
  local to = string.sub(found[2][i], 3)
  local first = line_records(s_outbox, to, 1)[1]
  local n = math.max(0, math.min(tonumber(found[2][i + 1]) or 0, most))
  lines[#lines + 1] = {to, n, first and tonumber(string.match(first, '%d+$')) or 0}
end
return {found[1], lines}

-- rerun: dead letters of certain ends go back to the end of the line, oldest
-- first, a batch at a time.
--
-- ARGV[2] batch
-- ARGV[3] a name for this call, so that a repetition is known
-- ARGV[4] when the first batch was moved, ms, or '': what was moved by then and has
--         failed again is not meant
-- ARGV[5...] the ends (status) that are meant
--
-- Answers {how many, now, 1 if there may be more}.

local now, before, wanted = now_ms(), tonumber(ARGV[4]), {}
local name, moved, at, rest = string.match(call('HGET', record, 'rerun') or '', '^(%S+) (%d+) (%d+) (%d)$')
if name == ARGV[3] then return {tonumber(moved), tonumber(at), tonumber(rest)} end
for i = 5, #ARGV do wanted[ARGV[i]] = true end

local found = {}
for _, id in ipairs(call('ZRANGE', archived, 0, -1)) do
  local t = call('HMGET', task .. id, 'msg', 'result', 'arrived', 'seq')
  local ok, outcome = try(cjson.decode, t[2] or '')
  local again = before and (tonumber(t[3]) or 0) >= before
  if t[1] and ok and type(outcome) == 'table' and wanted[outcome.status] and not again then
    found[#found + 1] = {id, t[1], tonumber(t[3]) or 0, tonumber(t[4]) or 0}
  end
end
table.sort(found, function(a, b)
  if a[3] ~= b[3] then return a[3] < b[3] end
  if a[4] ~= b[4] then return a[4] < b[4] end
  return a[1] < b[1]
end)
call('LLEN', pending)

local n = math.min(#found, tonumber(ARGV[2]))
for i = 1, n do
  local id, msg = found[i][1], found[i][2]
  call('ZREM', archived, id)
  call('HDEL', task .. id, 'result', 'arrived')
  -- 6 retried, 7 error_msg, 11 last_failed_at: as if it had never been tried.
  call('HSET', task .. id, 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now),
    'msg', msg .. '\48\0\58\0\88\0')
  call('LPUSH', pending, id)
end
local more = n < #found and 1 or 0
if n > 0 then call('HSET', record, 'rerun', ARGV[3] .. ' ' .. n .. ' ' .. int(now) .. ' ' .. more) end
return {n, now, more}

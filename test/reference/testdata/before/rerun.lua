-- rerun: dead letters that are named go back to the end of the line, in the order
-- in which they are named, if they are still the ones that their caller has seen.
--
-- ARGV[2] the ends (status) that are meant, with blanks between
-- ARGV[3] how many messages may wait: what has no room stays a dead letter
-- ARGV[4...] of each its id and its arrived, '' if it has none: another one's, and it
--            has been run and has failed since
--
-- Answers {how many, now}.

local now, wanted = now_ms(), {}
local moved, at = string.match(call('GET', answer_key) or '', '^(%d+) (%d+)$')
if moved then return {tonumber(moved), tonumber(at)} end
for status in string.gmatch(ARGV[2], '%S+') do wanted[status] = true end

local found, room = {}, tonumber(ARGV[3]) - call('LLEN', pending)
for i = 4, #ARGV, 2 do
  local id = ARGV[i]
  if #found < room and call('ZSCORE', archived, id) then
    local t = call('HMGET', task .. id, 'msg', 'result', 'arrived')
    local ok, outcome = try(cjson.decode, t[2] or '')
    if t[1] and (t[3] or '') == ARGV[i + 1] and ok and type(outcome) == 'table' and wanted[outcome.status] then
      found[#found + 1] = {id, t[1]}
    end
  end
end

for _, f in ipairs(found) do
  local id, msg = f[1], f[2]
  call('ZREM', archived, id)
  call('HDEL', task .. id, 'result', 'arrived')
  -- Without 6 retried, 7 error_msg, 11 last_failed_at: as if it had never been tried.
  call('HSET', task .. id, 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now),
    'msg', without(msg, {[6] = true, [7] = true, [11] = true}))
  call('LPUSH', pending, id)
end
if #found > 0 then keep_answer(#found, int(now)) end
return {#found, now}

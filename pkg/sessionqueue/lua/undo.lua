-- undo: the last turn's entries leave the transcript; to try again, the same
-- words become a message at the head of the line. Refused while somebody owns the
-- session.
--
-- ARGV[2] the turn that is meant
-- ARGV[3] task id of the message to put in, or ''
-- ARGV[4] its msg
-- ARGV[5] the transcript's session id
--
-- Answers {'ok', entries removed, now}, {'held'} or {'changed'} (another turn is the
-- last one by now; nothing is written).

if call('EXISTS', sentinel) == 1 then return {'held'} end
local now = now_ms()
local rec = call('HMGET', record, 'session_id', 'undone')
local undone = string.match(rec[2] or '', '^(%d+) ' .. string.gsub(ARGV[2], '%p', '%%%0') .. '$')
if undone then return {'ok', tonumber(undone), now} end -- a repetition: turns have names of their own
if (rec[1] or '') ~= ARGV[5] then return {'changed'} end

-- turn_of(line): the turn that an entry belongs to; false: it cannot be read, and
-- goes with the entry before it.
local function turn_of(line)
  local ok, e = try(cjson.decode, line)
  local turn = ok and type(e) == 'table' and e.turn
  return type(turn) == 'string' and turn ~= '' and turn or false
end
local n, found, len = 0, false, call('LLEN', transcript)
while n < len do
  local line = call('LINDEX', transcript, -1 - n)
  local turn = turn_of(line)
  if turn and turn ~= ARGV[2] then break end
  if turn then found = true end
  n = n + 1
end
if not found then return {'changed'} end
local sid = call('HGET', run, 'sid')
call('LLEN', pending)

call('LTRIM', transcript, 0, -1 - n)
-- The count tells warm agents that the transcript has changed: it only rises.
if sid == ARGV[5] then call('HINCRBY', run, 'entries', 1) end
call('HSET', record, 'updated_at', int(now), 'undone', n .. ' ' .. ARGV[2])
if ARGV[3] ~= '' then
  call('HSET', task .. ARGV[3], 'msg', ARGV[4], 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now))
  call('RPUSH', pending, ARGV[3])
end
return {'ok', n, now}

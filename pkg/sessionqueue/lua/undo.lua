-- undo: the last turn's entries leave the transcript; to try again, the same
-- words become a message at the head of the line. Refused while somebody owns the
-- session.
--
-- ARGV[2] the turn that is meant
-- ARGV[3] task id of the message to put in, or ''
-- ARGV[4] its msg
-- ARGV[5] the transcript's session id
--
-- Answers {'ok', entries removed, now}, {'held'} or {'changed'} (another turn is
-- the last one by now; nothing is written).

local now, again = now_ms(), ARGV[3] ~= ''
local rec = call('HMGET', record, 'session_id', 'undone')
-- undone is "entries turn task": a repetition, or another's who meant the same
-- turn. It is out already; its message is put in if nobody has done so.
local n, turn, task_id = string.match(rec[2] or '', '^(%d+) (%S+) ?(.*)$')
n = turn == ARGV[2] and tonumber(n)
if n and (not again or task_id ~= '') then return {'ok', n, now} end
if call('EXISTS', sentinel) == 1 then return {'held'} end
if (rec[1] or '') ~= ARGV[5] then return {'changed'} end

-- turn_of(line): the turn that an entry belongs to; false: it cannot be read, and
-- goes with the entry before it.
local function turn_of(line)
  local ok, e = try(cjson.decode, line)
  return ok and type(e) == 'table' and type(e.turn) == 'string' and e.turn ~= '' and e.turn
end
local sid, out = call('HGET', run, 'sid'), n
if not out then
  local found, len = false, call('LLEN', transcript)
  n = 0
  while n < len do
    local of = turn_of(call('LINDEX', transcript, -1 - n))
    if of and of ~= ARGV[2] then break end
    if of then found = true end
    n = n + 1
  end
  if not found then return {'changed'} end
end
call('LLEN', pending)

if not out then
  call('LTRIM', transcript, 0, -1 - n)
  -- The count tells warm agents that the transcript has changed: it only rises.
  if sid == ARGV[5] then call('HINCRBY', run, 'entries', 1) end
end
call('HSET', record, 'updated_at', int(now), 'undone', n .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
if again then
  call('HSET', task .. ARGV[3], 'msg', ARGV[4], 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now))
  call('RPUSH', pending, ARGV[3])
end
return {'ok', n, now}

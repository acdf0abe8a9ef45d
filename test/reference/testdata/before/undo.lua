-- undo: the last turn's entries leave the transcript; to try again, the same
-- words become a message at the head of the line. Refused while somebody owns the
-- session. Its caller has read the transcript's end, and nobody has written to it since.
--
-- KEYS[22] see call.lua: it is named after the turn
-- ARGV[2] the turn that is meant
-- ARGV[3] task id of the message to put in, or ''
-- ARGV[4] its msg
-- ARGV[5] the transcript's session id
-- ARGV[6] how many entries the turn has, at most 10,000
-- ARGV[7] how many the transcript had when it was read, and
-- ARGV[8] how many were written to it by then (run's entries; '0': of another session id)
--
-- Answers {'ok', entries removed, now}, {'held'} or {'changed'} (look again: nothing is
-- written).

local now, again = now_ms(), ARGV[3] ~= ''
-- Of a turn that is out already it is "entries task": a repetition, or another's who
-- meant the same turn. Its message is put in if nobody has done so. A sender of the
-- version before leaves and reads "entries turn task" of the last one, in the record.
local rec = call('HMGET', record, 'session_id', 'undone')
local n, task_id = string.match(call('GET', answer_key) or '', '^(%d+) (.*)$')
if not n then
  local of, turn, message = string.match(rec[2] or '', '^(%d+) (%S+) ?(.*)$')
  if turn == ARGV[2] then n, task_id = of, message end
end
n = tonumber(n)
if n and (not again or task_id ~= '') then return {'ok', n, now} end
if call('EXISTS', sentinel) == 1 then return {'held'} end
if (rec[1] or '') ~= ARGV[5] then return {'changed'} end

local r, out = call('HMGET', run, 'sid', 'entries'), n
local counted = r[1] == ARGV[5]
if not out then
  local entries = counted and tonumber(r[2]) or 0
  if call('LLEN', transcript) ~= tonumber(ARGV[7]) or entries ~= tonumber(ARGV[8]) then return {'changed'} end
  n = tonumber(ARGV[6])
end
call('LLEN', pending)

if not out then
  call('LTRIM', transcript, 0, -1 - n)
  -- The count tells warm agents that the transcript has changed: it only rises.
  if counted then call('HINCRBY', run, 'entries', 1) end
end
call('HSET', record, 'updated_at', int(now), 'undone', n .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
keep_answer(n, ARGV[3])
if again then
  call('HSET', task .. ARGV[3], 'msg', ARGV[4], 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now))
  call('RPUSH', pending, ARGV[3])
end
return {'ok', n, now}

-- requeue: a turn goes back to the head of the line and the sentinel is
-- released: for another try after a while, or because its worker drains.
--
-- ARGV[4] prefix of turn ids
-- ARGV[5] wait before it may be taken again, ms; 0: at once
-- ARGV[6] attempts so far, for asynq's retried; '': none was spent
-- ARGV[7] the error, if an attempt was spent
-- ARGV[8] event, JSON
-- ARGV[9] limits of the event stream
-- ARGV[10] the turn's start, JSON, if it was not announced yet, or ''
-- ARGV[11] what the next run is to go on from, JSON: the partial; '': what is
--          stored already, but nothing of an attempt that failed
-- ARGV[12] its TTL, ms
-- ARGV[13] why a running turn was cut off, for the resume mark; '': it was not
-- ARGV[14] interruptions in a row that suspend the session
-- ARGV[15...] task ids, oldest first
--
-- Answers {'released', when it can be claimed again (ms, 0: never), now},
-- {'asked', 'stop', 'rollback' or 'interrupt'} (end the turn so instead; nothing
-- is written), or {'lost'}.

local now, hold = now_ms(), r[5]
if not owned then
  if answered() then return {'released', next_at(hold, now) or 0, now} end
  return {'lost'}
end
local asking = asked()
if asking ~= '' then return {'asked', asking} end

local attempts = ARGV[6] ~= '' and varint(math.max(tonumber(ARGV[6]), 0))
local back, lost = {}, {}
for i = #ARGV, 15, -1 do -- newest first, so that the oldest ends up as the head
  local key = task .. ARGV[i]
  local msg = ARGV[6] ~= '' and call('HGET', key, 'msg') -- of a failed attempt it changes
  if msg or ARGV[6] == '' and call('HEXISTS', key, 'msg') == 1 then
    back[#back + 1] = {ARGV[i], msg}
  else
    lost[#lost + 1] = ARGV[i]
  end
end
local rotated = r[6] and r[6] ~= '' -- the message goes on in another conversation
local stored = false
if ARGV[6] ~= '' and ARGV[11] == '' then -- a failed attempt
  local head = pcall('GETRANGE', partial, 0, 63) -- Partial.Encode begins so
  stored = type(head) == 'string' and string.match(head, '^{"v":%d+,"fence":(%d+),') == fence
end
local m = resume_record()
local interrupted = ARGV[13] ~= '' and call('HGET', run, 'phase') == 'running'
  and interrupt(m, fence, ARGV[13], rotated, now, tonumber(ARGV[14])) -- else it is marked already
call('LLEN', active)
call('LLEN', pending)

call('DEL', sentinel)
for _, id in ipairs(lost) do -- somebody has deleted the task
  call('LREM', active, 1, id)
  pcall('ZREM', lease, id)
end
for _, b in ipairs(back) do
  local id = b[1]
  if put_back(id, ARGV[4]) then
    if ARGV[6] == '' then
      pcall('HINCRBY', task .. id, 'redelivered', 1)
    else -- 6 retried
      call('HSET', task .. id, 'msg', with_error(b[2], ARGV[7], math.floor(now / 1000)) .. '\48' .. attempts)
    end
  end
end
if rotated then
  leave_conversation()
elseif ARGV[11] ~= '' then
  call('HSET', run, 'special', '1')
  call('SET', partial, ARGV[11], 'PX', ARGV[12])
elseif stored then
  call('DEL', partial)
end
if interrupted then store_interruption(m) end
if tonumber(ARGV[5]) > 0 and #back > 0 then hold = int(now + tonumber(ARGV[5])) .. ' ' .. back[#back][1] end
add(processed, processed_day, tonumber(r[4]) or 0)
if rotated then call('HSET', run, 'sid', r[6], 'entries', '0', 'rotated', '') end
call('HSET', run, 'token', '', 'phase', 'idle', 'last', token .. ' ' .. fence .. ' released', 'hold', hold or '', 'done', '0')
announce(run, events, ARGV[9], ARGV[8], ARGV[10])
return {'released', next_at(hold, now) or 0, now}

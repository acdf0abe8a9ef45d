-- requeue: a turn goes back to the head of the line and the sentinel is
-- released: for another try after a while, or because its worker drains.
--
-- ARGV[4] prefix of turn ids
-- ARGV[5] wait before it may be taken again, ms; 0: at once
-- ARGV[6] attempts so far, for asynq's retried; '': none was spent
-- ARGV[7] the error, if an attempt was spent
-- ARGV[8] event, JSON
-- ARGV[9] cap of the event stream
-- ARGV[10...] task ids, oldest first
--
-- Answers {'released', when it can be claimed again (ms, 0: never), now},
-- {'asked', 'stop' or 'interrupt'} (end the turn so instead; nothing is
-- written), or {'lost'}.

local now, hold = now_ms(), r[5]
if not owned() then
  if answered() then return {'released', next_at(hold, now) or 0, now} end
  return {'lost'}
end
local asking = asked()
if asking ~= '' then return {'asked', asking} end

local back = {}
for i = #ARGV, 10, -1 do -- newest first, so that the oldest ends up as the head
  local msg = call('HGET', task .. ARGV[i], 'msg')
  if msg then back[#back + 1] = {ARGV[i], msg} end
end
call('LLEN', active)
call('LLEN', pending)
call('ZCARD', lease)

call('DEL', sentinel)
for _, b in ipairs(back) do
  local id = b[1]
  if call('LREM', active, 1, id) == 1 then
    call('ZREM', lease, id)
    call('RPUSH', pending, id)
    if ARGV[6] == '' then
      call('HSET', task .. id, 'state', 'pending')
      call('HINCRBY', task .. id, 'redelivered', 1)
    else
      call('HSET', task .. id, 'state', 'pending',
        'msg', with_error(b[2], ARGV[7], math.floor(now / 1000)) .. '\48' .. varint(tonumber(ARGV[6])))
    end
  end
end
if tonumber(ARGV[5]) > 0 and #back > 0 then hold = int(now + tonumber(ARGV[5])) .. ' ' .. back[#back][1] end
add(processed, processed_day, tonumber(r[4]) or 0)
if r[6] and r[6] ~= '' then call('HSET', run, 'sid', r[6], 'entries', '0', 'rotated', '') end
call('HSET', run, 'token', '', 'phase', 'idle', 'last', token .. ' ' .. fence .. ' released', 'hold', hold or '', 'done', '0')
pcall('XADD', events, 'MAXLEN', '~', ARGV[9], '*', 'e', ARGV[8])
return {'released', next_at(hold, now) or 0, now}

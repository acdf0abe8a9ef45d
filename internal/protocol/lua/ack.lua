-- ack: stores the result of delivering the record at the head of a destination's queue: it was
-- delivered, is to be tried again, or is given up. It does nothing if another deliverer has the
-- lease by now.
--
-- KEYS owed outbox deliveries undelivered
-- ARGS
--   to
--   token            of the lease
--   sequence int     of the record
--   verdict          'delivered', 'again', 'dead', or 'release': it was not tried
--   wait number      until the next attempt, ms
--   unsure flag      again, dead: it may have been delivered
--   refused flag     again: the receiver refused this record
--   why              the error of the attempt
-- RETURNS
--   result: ok:flag left:flag    ok: 0 if the lease was lost; left: 1 if the queue has more records

local now, line = now_ms(), load_line(s, to)
local member = to .. ' ' .. sequence
check_outbox(s)
call('ZCARD', s.undelivered)
if line.token ~= token then
  -- A repetition finds the lease released, or ended with the last record of the queue. If another
  -- deliverer has leased the queue since, the caller must not continue.
  local again = line.token == '-' .. token
    or line.token == '-' and (verdict == 'delivered' or verdict == 'dead') and not call('ZSCORE', s.outbox, member)
  return result{ok = again and 1 or 0, left = again and line_records(s, to, 1)[1] and 1 or 0}
end

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s.deliveries, '')
if verdict == 'delivered' then
  if call('ZREM', s.outbox, member) == 1 then
    forget_record(s, sequence)
    count_for(s, to, -1)
  end
elseif verdict == 'dead' then
  give_up(s, to, sequence, why, unsure or line.unsure == 2, now)
end
local left = line_records(s, to, 1)[1]
if not left then
  call('HDEL', s.deliveries, 'line ' .. to)
elseif verdict == 'delivered' or verdict == 'dead' then
  -- The holder of the lease continues with the next record.
  store_line(s, to, token, line.till, 0, 0, 1)
elseif verdict == 'again' and left == member then
  if refused then call('HINCRBY', s.deliveries, 'refused ' .. sequence, 1) end
  store_line(s, to, '-' .. token, 0, line.attempts + 1, now + wait, unsure and 1 or line.unsure == 2 and 1 or 0, why)
else
  store_line(s, to, '-' .. token, 0, line.attempts, 0, line.unsure == 2 and 1 or 0)
end
return result{ok = 1, left = left and 1 or 0}

-- redrive: puts records that were given up back at the end of their queues, under new sequences, or
-- deletes them. The oldest come first. A question that has closed is deleted: its end may have been
-- delivered already.
--
-- KEYS owed outbox deliveries undelivered call
-- ARGS
--   s.task          prefix of the session's task hashes
--   to              destination, '': all
--   drop flag       delete them
--   most number     how many at most
-- RETURNS
--   result: n:int more:flag     how many were put back, or deleted by drop; 1 if there may be more: call again

local now, found = now_ms(), {}
local before, rest = string.match(call('GET', s.call) or '', '^(%d+) (%d)$')
if before then return result{n = tonumber(before), more = tonumber(rest)} end
local members = call('ZRANGE', s.undelivered, '0', '999')
for _, member in ipairs(members) do
  if #found < most and (to == '' or string.match(member, '^%S+') == to) then found[#found + 1] = member end
end
check_outbox(s)
local open = '\n' .. (call('HGET', s.deliveries, 'question') or '') .. '\n'

-- closed(whose, first, body) returns whether a record is a question that is not open.
local function closed(whose, first, body)
  return string.sub(body, 1, 24) == '{"type":"question.asked"' and not string.find(open, '\n' .. whose .. ' ' .. first .. ' ', 1, true)
end

local moved = 0
for _, member in ipairs(found) do
  local whose, sequence = string.match(member, '^%S+'), sequence_of(member) or ''
  local body, first, unsure = unpack(call('HMGET', s.deliveries, sequence, 'id ' .. sequence, 'unsure ' .. sequence))
  first = first or sequence
  call('ZREM', s.undelivered, member)
  forget_record(s, sequence)
  if drop or body and not closed(whose, first, body) then moved = moved + 1 end
  if body and not drop and not closed(whose, first, body) then
    local new = next_sequence(s, now)
    call('HSET', s.deliveries, 'seq', new, new, body, 'id ' .. new, first)
    if unsure then call('HSET', s.deliveries, 'unsure ' .. new, '1') end
    call('ZADD', s.outbox, '0', whose .. ' ' .. new)
    count_for(s, whose, 1)
  end
end
if moved > 0 and not drop then call('PUBLISH', 'turnstile:signal:outbox', session_of(s)) end
if #found > 0 then keep_result(s, moved, #found == most and 1 or 0) end
return result{n = moved, more = #found == most and 1 or 0}

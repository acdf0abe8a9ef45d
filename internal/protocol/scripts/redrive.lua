-- Code generated from ../lua/redrive.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_owed, s_outbox, s_deliveries, s_undelivered, s_call, s_task = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1]

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- count_for(s, to, n) adds n to a destination's count of undelivered outcomes.
local function count_for(s_deliveries, to, n)
  if n ~= 0 and call('HINCRBY', s_deliveries, 'n ' .. to, n) <= 0 then call('HDEL', s_deliveries, 'n ' .. to) end
end

-- forget_record(s, sequence) deletes the text of a record and the facts about it: 'id sequence' is
-- its first sequence, 'why sequence' why it was given up, 'unsure sequence' that it may have been
-- delivered before it was redriven, 'refused sequence' how often its receiver refused it, and 'by
-- sequence' its deadline, if its messages have one.
local function forget_record(s_deliveries, sequence)
  call('HDEL', s_deliveries, sequence, 'id ' .. sequence, 'why ' .. sequence, 'unsure ' .. sequence, 'refused ' .. sequence, 'by ' .. sequence)
end

-- keep_result(s, ...) stores words under s.call for five minutes, for a repetition of the call.
-- Package script gives up much sooner.
local function keep_result(s_call, ...)
  call('SET', s_call, table.concat({...}, ' '), 'PX', '300000')
end
local LAST = 2 ^ 52 -- no sequence is above it. It is exact as a number, and 140,000 years away as a time

-- next_sequence(s, now) returns the sequence of a new record, as text. It rises with Redis' clock, so
-- it is higher after an erase, too.
local function next_sequence(s_deliveries, now)
  local last = tonumber(call('HGET', s_deliveries, 'seq')) or 0
  return string.format('%d', (math.max(last < LAST and last + 1 or 0, now)))
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- sequence_of(member) returns the sequence in a member of s.outbox or s.undelivered, as text. It returns
-- nil if no script can have written it.
local function sequence_of(member)
  local sequence = string.match(member, '^%S+ (%d+)$')
  local n = tonumber(sequence or '')
  return n and n <= LAST and string.format('%d', n) == sequence and sequence or nil
end

local to, drop, most = ARGV[2], ARGV[3] == '1', tonumber(ARGV[4])

local now, found = now_ms(), {}
local before, rest = string.match(call('GET', s_call) or '', '^(%d+) (%d)$')
if before then return {tonumber(before), tonumber(rest)} end
local members = call('ZRANGE', s_undelivered, '0', '999')
for _, member in ipairs(members) do
  if #found < most and (to == '' or string.match(member, '^%S+') == to) then found[#found + 1] = member end
end
check_outbox(s_deliveries, s_outbox, s_owed)
local open = '\n' .. (call('HGET', s_deliveries, 'question') or '') .. '\n'

-- closed(whose, first, body) returns whether a record is a question that is not open.
local function closed(whose, first, body)
  return string.sub(body, 1, 24) == '{"type":"question.asked"' and not string.find(open, '\n' .. whose .. ' ' .. first .. ' ', 1, true)
end

local moved = 0
for _, member in ipairs(found) do
  local whose, sequence = string.match(member, '^%S+'), sequence_of(member) or ''
  local body, first, unsure = unpack(call('HMGET', s_deliveries, sequence, 'id ' .. sequence, 'unsure ' .. sequence))
  first = first or sequence
  call('ZREM', s_undelivered, member)
  forget_record(s_deliveries, sequence)
  if drop or body and not closed(whose, first, body) then moved = moved + 1 end
  if body and not drop and not closed(whose, first, body) then
    local new = next_sequence(s_deliveries, now)
    call('HSET', s_deliveries, 'seq', new, new, body, 'id ' .. new, first)
    if unsure then call('HSET', s_deliveries, 'unsure ' .. new, '1') end
    call('ZADD', s_outbox, '0', whose .. ' ' .. new)
    count_for(s_deliveries, whose, 1)
  end
end
if moved > 0 and not drop then call('PUBLISH', 'turnstile:signal:outbox', string.match(s_task, '{session:(.*)}')) end
if #found > 0 then keep_result(s_call, moved, #found == most and 1 or 0) end
return {moved, #found == most and 1 or 0}

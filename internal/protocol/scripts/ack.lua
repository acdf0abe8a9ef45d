-- Code generated from ../lua/ack.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_owed, s_outbox, s_deliveries, s_undelivered = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

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
local LAST = 2 ^ 52 -- no sequence is above it. It is exact as a number, and 140,000 years away as a time

-- sequence_of(member) returns the sequence in a member of s.outbox or s.undelivered, as text. It returns
-- nil if no script can have written it.
local function sequence_of(member)
  local sequence = string.match(member, '^%S+ (%d+)$')
  local n = tonumber(sequence or '')
  return n and n <= LAST and string.format('%d', n) == sequence and sequence or nil
end

-- give_up(s, to, sequence, why, unsure, now) sets a record aside for an operator. A session keeps its
-- newest 1,000 of these.
local function give_up(s_deliveries, s_outbox, s_undelivered, to, sequence, why, unsure, now)
  local member = to .. ' ' .. sequence
  if call('ZREM', s_outbox, member) == 0 then return end
  call('ZADD', s_undelivered, string.format('%d', now), member)
  call('HSET', s_deliveries, 'why ' .. sequence, why)
  if unsure then call('HSET', s_deliveries, 'unsure ' .. sequence, '1') end
  call('HDEL', s_deliveries, 'line ' .. to, 'refused ' .. sequence)
  count_for(s_deliveries, to, -1)
  if call('ZCARD', s_undelivered) > 1000 then
    forget_record(s_deliveries, sequence_of(call('ZPOPMIN', s_undelivered)[1]) or '')
  end
end

-- line_records(s, to, most) returns the first members of s.outbox for a destination.
local function line_records(s_outbox, to, most)
  return call('ZRANGEBYLEX', s_outbox, '[' .. to .. ' ', '[' .. to .. ' \255', 'LIMIT', '0', most)
end

-- load_line(s, to) returns the state of a destination's queue: "token till attempts at unsure
-- error". token is the lease's until till; '-' and a token is the last lease, which was released.
-- attempts are those of the record at the head; the next one is not before at. unsure is 1 if one
-- of them may have been delivered. While a queue is leased, it is 1, or 2 if it was 1 before.
local function load_line(s_deliveries, to)
  local stored = call('HGET', s_deliveries, 'line ' .. to) or ''
  local token, till, attempts, at, unsure = string.match(stored, '^(%S+) (%d+) (%d+) (%d+) (%d)')
  return {token = token or '-', till = tonumber(till) or 0, attempts = tonumber(attempts) or 0, at = tonumber(at) or 0,
    unsure = tonumber(unsure) or 0}
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- store_line(s, to, token, till, attempts, at, unsure, why) writes the state that load_line reads.
local function store_line(s_deliveries, to, token, till, attempts, at, unsure, why)
  call('HSET', s_deliveries, 'line ' .. to, token .. ' ' .. string.format('%d', till) .. ' ' .. string.format('%d', attempts) .. ' ' .. string.format('%d', at) .. ' ' .. string.format('%d', unsure) ..
    ' ' .. (why or ''))
end

local to, token, sequence, verdict, wait, unsure, refused, why = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7] == '1', ARGV[8]

local now, line = now_ms(), load_line(s_deliveries, to)
local member = to .. ' ' .. sequence
check_outbox(s_deliveries, s_outbox, s_owed)
call('ZCARD', s_undelivered)
if line.token ~= token then
  -- A repetition finds the lease released, or ended with the last record of the queue. If another
  -- deliverer has leased the queue since, the caller must not continue.
  local again = line.token == '-' .. token
    or line.token == '-' and (verdict == 'delivered' or verdict == 'dead') and not call('ZSCORE', s_outbox, member)
  return {again and 1 or 0, again and line_records(s_outbox, to, 1)[1] and 1 or 0}
end

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s_deliveries, '')
if verdict == 'delivered' then
  if call('ZREM', s_outbox, member) == 1 then
    forget_record(s_deliveries, sequence)
    count_for(s_deliveries, to, -1)
  end
elseif verdict == 'dead' then
  give_up(s_deliveries, s_outbox, s_undelivered, to, sequence, why, unsure or line.unsure == 2, now)
end
local left = line_records(s_outbox, to, 1)[1]
if not left then
  call('HDEL', s_deliveries, 'line ' .. to)
elseif verdict == 'delivered' or verdict == 'dead' then
  -- The holder of the lease continues with the next record.
  store_line(s_deliveries, to, token, line.till, 0, 0, 1)
elseif verdict == 'again' and left == member then
  if refused then call('HINCRBY', s_deliveries, 'refused ' .. sequence, 1) end
  store_line(s_deliveries, to, '-' .. token, 0, line.attempts + 1, now + wait, unsure and 1 or line.unsure == 2 and 1 or 0, why)
else
  store_line(s_deliveries, to, '-' .. token, 0, line.attempts, 0, line.unsure == 2 and 1 or 0)
end
return {1, left and 1 or 0}

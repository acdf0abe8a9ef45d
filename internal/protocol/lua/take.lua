-- take: leases the session's queues with a record to deliver now, and returns their first records.
-- Each destination of the session has a queue: its records, in order.
--
-- A call checks at most 100 queues, and stops when it has enough records. The next call continues
-- there, so that every queue is served.
--
-- It also looks for outcomes that no script has recorded: their messages were deleted or archived
-- in asynqmon, or ended by another program. It records these, at most about 500 or 4 MiB in a call.
--
-- KEYS owed outbox deliveries undelivered
-- ARGS
--   s.task            prefix of the session's task hashes
--   s.prefix          of task ids
--   token             of these leases
--   lease number      for how long, ms
--   most number       records, at most
--   bytes number      of their texts, at most; the first may have more
--   unknown_age number    the age at which a record for an unknown destination is given up, ms
--   known list        the destinations that the caller knows
--   ages list         of each: the age at which a record is given up, ms
--   paused list       of each: '1' if nothing may be delivered now
-- RETURNS
--   result: now:int at:int unknown:int last:int forged:list records:record     last: the highest sequence of a record of the session;
--     forged: destinations of members of the outbox that no script can have written, which are removed;
--     '-': it is unknown; at: when to look again, ms: not after now if there is more to
--     look at, 0: nothing is stored; unknown: how many queues are of destinations that the caller does
--     not know
--   record: to sequence:int id:int attempt:int unsure:flag refused:int by:int body     id: the sequence under which it was stored
--     first; unsure: 1 if an earlier attempt may have been delivered; refused: how often it was;
--     by: until when it is to be delivered, ms, 0: until its age

local KEPT = 4 * 1024 * 1024 -- bytes of results that one call reads
local LINES = 100            -- that it checks, and records that it gives up
local LATER = 60 * 1000
local LONGEST = 2 * 3600 * 1000 -- that a queue waits, or is leased: if longer, the clock was set back

local now, of = now_ms(), {}
for i, to in ipairs(known) do of[to] = {age = tonumber(ages[i]), paused = paused[i] == '1'} end

-- told(own, state, text) returns the outcome in a task's result. A stock asynq.Server stores any
-- text: it is the reply. Without a text an operator has archived the message.
local function told(own, state, text)
  if not text then return false end
  if string.sub(text, 1, 20) == '{"type":"turn_ended"' and valid(text) == text and try(cjson.decode, text) then return text end
  local failed = state == 'archived'
  local status = failed and '"failed"' or '"done"'
  local event = '{"type":"turn_ended","messages":[' .. quote(own) .. '],"status":' .. status
  if #text <= BODY then event = event .. ',"reply":' .. quote(valid(text)) end
  return event .. (failed and ',"error":"archived by an operator","code":"archived"}' or '}')
end

local ended, read = {}, 0
local scan = call('HSCAN', s.owed, call('HGET', s.deliveries, 'scan') or '0', 'COUNT', '100')
for i = 1, #scan[2], 2 do
  local id = s.prefix .. scan[2][i]
  local t = fields(s.task .. id, 'state', 'route')
  -- A task without a route is another message, with the id of one that was deleted.
  if not t.route or t.state == 'completed' or t.state == 'archived' then
    read = read + call('HSTRLEN', s.task .. id, 'result')
    if read > KEPT and #ended > 0 then
      scan[1] = false -- the next call scans the same again
      break
    end
    ended[#ended + 1] = {id = id, route = scan[2][i + 1], outcome = t.route and told(scan[2][i], t.state, call('HGET', s.task .. id, 'result')) or removed(scan[2][i])}
  end
end
check_outbox(s)
call('ZCARD', s.undelivered)

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s.deliveries, '')
for _, e in ipairs(ended) do keep_promises(s, {e}, e.outcome, now) end
if scan[1] == '0' then
  call('HDEL', s.deliveries, 'scan')
elseif scan[1] then
  call('HSET', s.deliveries, 'scan', scan[1])
end

local at, unknown, size, given_up = 0, 0, 0, 0
local records, forged = {}, {}

-- look_at(time) makes the caller check again no later than then.
local function look_at(time)
  if at == 0 or time < at then at = time end
end

-- too_old(member, d) returns why a record is to be given up, or false.
local function too_old(member, d)
  local sequence = sequence_of(member)
  local by = tonumber(call('HGET', s.deliveries, 'by ' .. sequence) or '')
  if by then return by < now and 'it was too late: its deliver_by was over' end
  if tonumber(sequence) + (d and d.age or unknown_age) >= now then return false end
  return d and 'it was too old' or 'it was too old, and nobody knows its destination'
end

-- is_full(first) returns whether the call has no room for a queue with this first record.
local function is_full(first)
  return #records >= most or #records > 0 and size + call('HSTRLEN', s.deliveries, sequence_of(first) or '') > bytes
end

-- remove(member, to) removes a member that no script can have written.
local function remove(member, to)
  call('ZREM', s.outbox, member)
  forged[#forged + 1] = to
end

-- look(to) checks the queue of a destination. Returns whether there was room for that.
local function look(to)
  local d, line = of[to], load_line(s, to)
  if line.till > now + LONGEST then line.till = 1 end
  if line.at > now + LONGEST then line.at = 0 end
  local first = line_records(s, to, 1)[1]
  while first and given_up < LINES and line.till <= now do
    if sequence_of(first) then
      local why = too_old(first, d)
      if not why then break end
      -- A lease that expired without an ack leaves its attempt unsure.
      give_up(s, to, sequence_of(first), why, line.till > 0 or line.unsure == 1, now)
    else
      remove(first, d and to or '-')
    end
    line, first, given_up = load_line(s, to), line_records(s, to, 1)[1], given_up + 1
  end
  if not first then
    call('HDEL', s.deliveries, 'line ' .. to)
  elseif not d then
    unknown = unknown + 1
    look_at(now + LATER)
  elseif line.till > now and line.token ~= token then
    look_at(line.till)
  elseif d.paused then
    look_at(now + LATER)
  elseif line.at > now then
    look_at(line.at)
  elseif given_up == LINES and (not sequence_of(first) or too_old(first, d)) or is_full(first) then
    return false
  else
    local before = line.unsure
    if line.token == token then
      before = line.unsure - 1
    elseif line.till > 0 then
      before = 1
    end
    for i, member in ipairs(line_records(s, to, most - #records)) do
      local sequence = sequence_of(member)
      if not sequence then break end -- it is removed when it is the first
      size = size + call('HSTRLEN', s.deliveries, sequence)
      if #records > 0 and size > bytes then break end
      local body, id, unsure, refused, by = unpack(call('HMGET', s.deliveries, sequence, 'id ' .. sequence, 'unsure ' .. sequence, 'refused ' .. sequence, 'by ' .. sequence))
      records[#records + 1] = record{to = to, sequence = tonumber(sequence), id = tonumber(id or sequence), attempt = i == 1 and line.attempts + 1 or 1,
        unsure = unsure and 1 or i == 1 and before or 0, refused = tonumber(refused or 0), by = tonumber(by or 0) or 0, body = body or ''}
    end
    local till = line.token == token and line.till or now + lease
    store_line(s, to, token, till, line.attempts, 0, before + 1)
    look_at(till)
  end
  return true
end

-- The field walk is "token from soonest next soonest": the call with that token began after the
-- queue from, and the next one begins after the queue next. '-' is before the first. soonest is the
-- at of the queues before. A repetition of a call begins where it began.
local by, from, was, behind, soonest = string.match(call('HGET', s.deliveries, 'walk') or '', '^(%S+) (%S+) (%d+) (%S+) (%d+)$')
if by ~= token then from, was = behind or '-', soonest or 0 end
at, behind = tonumber(was), from
local more, looked = false, 0
while not more do
  local first = call('ZRANGEBYLEX', s.outbox, behind == '-' and '-' or '(' .. behind .. ' \255', '+', 'LIMIT', '0', '1')[1]
  if not first then break end
  local to = string.match(first, '^(%S+) ')
  more = looked == LINES or to and not look(to)
  if not more then
    if not to then remove(first, '-') end
    behind, looked = to or behind, looked + 1
  end
end
if more then
  call('HSET', s.deliveries, 'walk', token .. ' ' .. from .. ' ' .. int(was) .. ' ' .. behind .. ' ' .. int(at))
elseif from ~= '-' then
  call('HSET', s.deliveries, 'walk', token .. ' ' .. from .. ' ' .. int(was) .. ' - 0')
else
  call('HDEL', s.deliveries, 'walk')
end
if more or scan[1] ~= '0' then at = now end
return result{now = now, at = at, unknown = unknown, last = math.min(tonumber(call('HGET', s.deliveries, 'seq')) or 0, LAST), forged = forged, records = records}

-- Code generated from ../lua/take.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_owed, s_outbox, s_deliveries, s_undelivered, s_task, s_prefix = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'state', 'route')
  return {state = v[1], route = v[2]}
end
local BODY, BODIES = 256 * 1024, 8 * 1024 * 1024 -- bytes of an outcome or question that a record carries, and all records of one end
local LAST = 2 ^ 52 -- no sequence is above it. It is exact as a number, and 140,000 years away as a time

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

-- own_id(s, id) returns the message id of a task.
local function own_id(s_prefix, id)
  if string.sub(id, 1, #s_prefix) == s_prefix then return string.sub(id, #s_prefix + 1) end
  return id
end

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

-- list_of(s, ids) returns the messages' own ids as JSON.
local function list_of(s_prefix, ids)
  local named = {}
  for i, id in ipairs(ids) do named[i] = quote(own_id(s_prefix, id)) end
  return '[' .. table.concat(named, ',') .. ']'
end

-- next_sequence(s, now) returns the sequence of a new record, as text. It rises with Redis' clock, so
-- it is higher after an erase, too.
local function next_sequence(s_deliveries, now)
  local last = tonumber(call('HGET', s_deliveries, 'seq')) or 0
  return string.format('%d', (math.max(last < LAST and last + 1 or 0, now)))
end

-- timestamp(now) returns a time in ms in RFC 3339. The days are counted from March, so that a leap
-- day is the last of its year.
local function timestamp(now)
  local days, ms = math.floor(now / 86400000) + 719468, now % 86400000
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - 365 * year - math.floor(year / 4) + math.floor(year / 100)
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  if month < 10 then month = month + 3 else month = month - 9 end
  year = year + era * 400
  if month < 3 then year = year + 1 end
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day, math.floor(ms / 3600000), math.floor(ms / 60000) % 60,
    math.floor(ms / 1000) % 60, ms % 1000)
end

-- add_record(s, route, kind, ids, data, now, by) stores a record for a route's destination, and
-- notifies the deliverers. ids are its messages; data is the rest of its data, as JSON; by is
-- own_end's result. Returns its member of s.outbox.
local function add_record(s_deliveries, s_outbox, s_prefix, s_task, route, kind, ids, data, now, by)
  local to, of, context = string.match(route, '^(%S+) (%S+) (.*)$')
  local sequence = next_sequence(s_deliveries, now)
  local body = '{"type":"' .. kind .. '","timestamp":"' .. timestamp(now) .. '","data":{"session":' .. quote(string.match(s_task, '{session:(.*)}')) ..
    ',"messages":' .. list_of(s_prefix, ids)
  if of ~= '-' then body = body .. ',"retry_of":' .. quote(of) end
  if context ~= '' then body = body .. ',"context":' .. context end
  call('HSET', s_deliveries, 'seq', sequence, sequence, body .. data .. '}}')
  if by then call('HSET', s_deliveries, 'by ' .. sequence, string.format('%d', by)) end
  call('ZADD', s_outbox, '0', to .. ' ' .. sequence)
  count_for(s_deliveries, to, 1)
  call('PUBLISH', 'turnstile:signal:outbox', string.match(s_task, '{session:(.*)}'))
  return to .. ' ' .. sequence
end

-- by_route(tasks) returns the routes of these tasks, in the order of their first messages, and
-- the ids of each.
local function by_route(tasks)
  local routes, ids = {}, {}
  for _, t in ipairs(tasks) do
    if t.route then
      if not ids[t.route] then
        routes[#routes + 1], ids[t.route] = t.route, {}
      end
      table.insert(ids[t.route], t.id)
    end
  end
  return routes, ids
end

-- naming(outcome, named) returns an outcome with another list of messages: a receiver must not see
-- messages of other destinations.
local function naming(outcome, named)
  local from, till = string.find(outcome, '"messages":%[[^%]]*%]')
  if not from or string.sub(outcome, from + 11, till) == named then return outcome end
  return string.sub(outcome, 1, from + 10) .. named .. string.sub(outcome, till + 1)
end

-- own_end(s, ids) returns the deadline of a record of these messages, ms: the latest of theirs. It
-- returns false if one of them has none: then the record's age counts.
local function own_end(s_deliveries, s_prefix, ids)
  local latest = 0
  for _, id in ipairs(ids) do
    local by = tonumber(call('HGET', s_deliveries, 'deliver_by ' .. own_id(s_prefix, id)) or '')
    if not by then return false end
    latest = math.max(latest, by)
  end
  return latest
end
local ROUTES = 4 * 1024 -- bytes of the routes that are remembered

-- remember_routes(s, routes, ids) keeps the routes of ended messages, so that an undo can notify
-- their destinations after their tasks are deleted. The field routes of s.deliveries has lines
-- "own,own route", the newest first. Those of this end are all kept, because an undo removes the
-- last turn.
local function remember_routes(s_deliveries, s_prefix, routes, ids)
  local text, new = call('HGET', s_deliveries, 'routes') or '', ''
  for n, route in ipairs(routes) do
    local named = {}
    for i, id in ipairs(ids[route]) do named[i] = own_id(s_prefix, id) end
    local first, of, rest = string.match(text, '^(%S+) ([^\n]*)\n(.*)$')
    if n == 1 and of == route and #first < 1000 then
      named[#named + 1], text = first, rest
    end
    new = table.concat(named, ',') .. ' ' .. route .. '\n' .. new
  end
  text = new .. (string.match(string.sub(text, 1, math.max(ROUTES - #new, 0)), '^.*\n') or '')
  call('HSET', s_deliveries, 'routes', text)
end

-- keep_promises(s, tasks, outcome, now) records the outcome of ended messages: one record for each
-- route, which names its messages. tasks are {id, route} each. Every end of a message goes through
-- this function.
local function keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, tasks, outcome, now)
  local routes, ids = by_route(tasks)
  if #routes == 0 then return end
  remember_routes(s_deliveries, s_prefix, routes, ids)
  local status = string.match(outcome, '"status":"([a-z_]+)"') or 'failed'
  local kind, short = status, false
  if status == 'interrupted' and string.find(outcome, '"error":"rolled back', 1, true) then kind = 'rolled_back' end
  if #outcome > math.min(BODY, BODIES / #routes) then
    short = ',"outcome":{"type":"turn_ended","status":"' .. status .. '","turn":' .. (string.match(outcome, '"turn":("[^"]*")') or '""') .. '},"truncated":true'
  end
  for _, route in ipairs(routes) do
    local owed, by = 0, own_end(s_deliveries, s_prefix, ids[route])
    for _, id in ipairs(ids[route]) do
      owed = owed + call('HDEL', s_owed, own_id(s_prefix, id))
      call('HDEL', s_deliveries, 'deliver_by ' .. own_id(s_prefix, id))
    end
    local data = short or ',"outcome":' .. naming(outcome, list_of(s_prefix, ids[route]))
    add_record(s_deliveries, s_outbox, s_prefix, s_task, route, 'message.' .. kind, ids[route], data, now, by)
    count_for(s_deliveries, string.match(route, '^%S+'), -owed)
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

-- valid(text) returns a text as valid UTF-8: in an invalid text it replaces the bytes beyond ASCII.
local function valid(text)
  if not string.find(text, '[\128-\255]') then return text end
  local rest = text
  for _, sequence in ipairs{'[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
    '\237[\128-\159][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
    '\244[\128-\143][\128-\191][\128-\191]'} do
    rest = string.gsub(rest, sequence, ' ')
  end
  if not string.find(rest, '[\128-\255]') then return text end
  return (string.gsub(text, '[\128-\255]', '\239\191\189'))
end

local token, lease, most, bytes, unknown_age = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local at = 8
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local known = list()
local ages = list()
local paused = list()

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
local scan = call('HSCAN', s_owed, call('HGET', s_deliveries, 'scan') or '0', 'COUNT', '100')
for i = 1, #scan[2], 2 do
  local id = s_prefix .. scan[2][i]
  local t = fields_1(s_task .. id)
  -- A task without a route is another message, with the id of one that was deleted.
  if not t.route or t.state == 'completed' or t.state == 'archived' then
    read = read + call('HSTRLEN', s_task .. id, 'result')
    if read > KEPT and #ended > 0 then
      scan[1] = false -- the next call scans the same again
      break
    end
    ended[#ended + 1] = {id = id, route = scan[2][i + 1], outcome = t.route and told(scan[2][i], t.state, call('HGET', s_task .. id, 'result')) or ('{"type":"turn_ended","status":"stopped","messages":[' .. quote((scan[2][i])) .. '],"error":"removed by operator"}')}
  end
end
check_outbox(s_deliveries, s_outbox, s_owed)
call('ZCARD', s_undelivered)

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s_deliveries, '')
for _, e in ipairs(ended) do keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, {e}, e.outcome, now) end
if scan[1] == '0' then
  call('HDEL', s_deliveries, 'scan')
elseif scan[1] then
  call('HSET', s_deliveries, 'scan', scan[1])
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
  local by = tonumber(call('HGET', s_deliveries, 'by ' .. sequence) or '')
  if by then return by < now and 'it was too late: its deliver_by was over' end
  if tonumber(sequence) + (d and d.age or unknown_age) >= now then return false end
  return d and 'it was too old' or 'it was too old, and nobody knows its destination'
end

-- is_full(first) returns whether the call has no room for a queue with this first record.
local function is_full(first)
  return #records >= most or #records > 0 and size + call('HSTRLEN', s_deliveries, sequence_of(first) or '') > bytes
end

-- remove(member, to) removes a member that no script can have written.
local function remove(member, to)
  call('ZREM', s_outbox, member)
  forged[#forged + 1] = to
end

-- look(to) checks the queue of a destination. Returns whether there was room for that.
local function look(to)
  local d, line = of[to], load_line(s_deliveries, to)
  if line.till > now + LONGEST then line.till = 1 end
  if line.at > now + LONGEST then line.at = 0 end
  local first = line_records(s_outbox, to, 1)[1]
  while first and given_up < LINES and line.till <= now do
    if sequence_of(first) then
      local why = too_old(first, d)
      if not why then break end
      -- A lease that expired without an ack leaves its attempt unsure.
      give_up(s_deliveries, s_outbox, s_undelivered, to, sequence_of(first), why, line.till > 0 or line.unsure == 1, now)
    else
      remove(first, d and to or '-')
    end
    line, first, given_up = load_line(s_deliveries, to), line_records(s_outbox, to, 1)[1], given_up + 1
  end
  if not first then
    call('HDEL', s_deliveries, 'line ' .. to)
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
    for i, member in ipairs(line_records(s_outbox, to, most - #records)) do
      local sequence = sequence_of(member)
      if not sequence then break end -- it is removed when it is the first
      size = size + call('HSTRLEN', s_deliveries, sequence)
      if #records > 0 and size > bytes then break end
      local body, id, unsure, refused, by = unpack(call('HMGET', s_deliveries, sequence, 'id ' .. sequence, 'unsure ' .. sequence, 'refused ' .. sequence, 'by ' .. sequence))
      records[#records + 1] = {to, tonumber(sequence), tonumber(id or sequence), i == 1 and line.attempts + 1 or 1, unsure and 1 or i == 1 and before or 0, tonumber(refused or 0), tonumber(by or 0) or 0, body or ''}
    end
    local till = line.token == token and line.till or now + lease
    store_line(s_deliveries, to, token, till, line.attempts, 0, before + 1)
    look_at(till)
  end
  return true
end

-- The field walk is "token from soonest next soonest": the call with that token began after the
-- queue from, and the next one begins after the queue next. '-' is before the first. soonest is the
-- at of the queues before. A repetition of a call begins where it began.
local by, from, was, behind, soonest = string.match(call('HGET', s_deliveries, 'walk') or '', '^(%S+) (%S+) (%d+) (%S+) (%d+)$')
if by ~= token then from, was = behind or '-', soonest or 0 end
at, behind = tonumber(was), from
local more, looked = false, 0
while not more do
  local first = call('ZRANGEBYLEX', s_outbox, behind == '-' and '-' or '(' .. behind .. ' \255', '+', 'LIMIT', '0', '1')[1]
  if not first then break end
  local to = string.match(first, '^(%S+) ')
  more = looked == LINES or to and not look(to)
  if not more then
    if not to then remove(first, '-') end
    behind, looked = to or behind, looked + 1
  end
end
if more then
  call('HSET', s_deliveries, 'walk', token .. ' ' .. from .. ' ' .. string.format('%d', was) .. ' ' .. behind .. ' ' .. string.format('%d', at))
elseif from ~= '-' then
  call('HSET', s_deliveries, 'walk', token .. ' ' .. from .. ' ' .. string.format('%d', was) .. ' - 0')
else
  call('HDEL', s_deliveries, 'walk')
end
if more or scan[1] ~= '0' then at = now end
return {now, at, unknown, math.min(tonumber(call('HGET', s_deliveries, 'seq')) or 0, LAST), forged, records}

-- Where the outcome of a message goes. Its task's field route is "destination of context": of is
-- the id of the message that it repeats, or '-'. While the message has not ended, s.owed has its
-- route. Its end becomes a record in s.outbox, in the destination's queue.
--
-- s.outbox has a member "destination sequence" for each record to deliver, all with score 0, so
-- that a destination's records are in the order of sequences. s.deliveries has the texts of records
-- by sequence, with facts about each (see forget_record), the last sequence as seq, 'n
-- destination': how many outcomes are undelivered, 'line destination': see load_line, 'deliver_by
-- id': see own_end, routes: see remember_routes, question: see put_question, and scan and walk: see
-- take.

local BODY, BODIES = 256 * 1024, 8 * 1024 * 1024 -- bytes of an outcome or question that a record carries, and all records of one end
local ROUTES = 4 * 1024 -- bytes of the routes that are remembered

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s)
  call('HLEN', s.owed)
  call('ZCARD', s.outbox)
  call('HLEN', s.deliveries)
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s, id)
  local route = call('HGET', s.task .. id, 'route')
  if route then check_outbox(s) end
  return route
end

-- count_for(s, to, n) adds n to a destination's count of undelivered outcomes.
local function count_for(s, to, n)
  if n ~= 0 and call('HINCRBY', s.deliveries, 'n ' .. to, n) <= 0 then call('HDEL', s.deliveries, 'n ' .. to) end
end

-- promise(s, id, route) records that the message's outcome must be delivered to its route. Returns
-- whether that is new.
local function promise(s, id, route)
  local new = call('HSET', s.owed, own_id(s, id), route)
  count_for(s, string.match(route, '^%S+'), new)
  -- That of an earlier run is over.
  if new == 1 then call('HDEL', s.deliveries, 'deliver_by ' .. own_id(s, id)) end
  return new == 1
end

-- own_end(s, ids) returns the deadline of a record of these messages, ms: the latest of theirs. It
-- returns false if one of them has none: then the record's age counts.
local function own_end(s, ids)
  local latest = 0
  for _, id in ipairs(ids) do
    local by = tonumber(call('HGET', s.deliveries, 'deliver_by ' .. own_id(s, id)) or '')
    if not by then return false end
    latest = math.max(latest, by)
  end
  return latest
end

-- check_routes(s, group) fails on a key of a wrong type, before promise_all.
local function check_routes(s, group)
  for _, t in ipairs(group) do
    if t and t.route then check_outbox(s) end
  end
end

-- promise_all(s, group) promises the outcomes of a turn's messages, {id, route} each, and returns
-- whether one has a route. A message without a promise has ended before: Run in asynqmon has put
-- the dead letter back. It repeats itself.
local function promise_all(s, group)
  local routed = false
  for _, t in ipairs(group) do
    if t.route then
      call('HDEL', s.task .. t.id, 'result') -- of an earlier run: it is not how this one ends
      if promise(s, t.id, t.route) then
        local again = string.gsub(t.route, '^(%S+) %S+', '%1 ' .. own_id(s, t.id), 1)
        call('HSET', s.task .. t.id, 'route', again)
        call('HSET', s.owed, own_id(s, t.id), again)
      end
      routed = true
    end
  end
  return routed
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

-- session_of(s) returns the session's key.
local function session_of(s) return string.match(s.task, '{session:(.*)}') end

local LAST = 2 ^ 52 -- no sequence is above it. It is exact as a number, and 140,000 years away as a time

-- next_sequence(s, now) returns the sequence of a new record, as text. It rises with Redis' clock, so
-- it is higher after an erase, too.
local function next_sequence(s, now)
  local last = tonumber(call('HGET', s.deliveries, 'seq')) or 0
  return int(math.max(last < LAST and last + 1 or 0, now))
end

-- sequence_of(member) returns the sequence in a member of s.outbox or s.undelivered, as text. It returns
-- nil if no script can have written it.
local function sequence_of(member)
  local sequence = string.match(member, '^%S+ (%d+)$')
  local n = tonumber(sequence or '')
  return n and n <= LAST and int(n) == sequence and sequence or nil
end

-- list_of(s, ids) returns the messages' own ids as JSON.
local function list_of(s, ids)
  local named = {}
  for i, id in ipairs(ids) do named[i] = quote(own_id(s, id)) end
  return '[' .. table.concat(named, ',') .. ']'
end

-- add_record(s, route, kind, ids, data, now, by) stores a record for a route's destination, and
-- notifies the deliverers. ids are its messages; data is the rest of its data, as JSON; by is
-- own_end's result. Returns its member of s.outbox.
local function add_record(s, route, kind, ids, data, now, by)
  local to, of, context = string.match(route, '^(%S+) (%S+) (.*)$')
  local sequence = next_sequence(s, now)
  local body = '{"type":"' .. kind .. '","timestamp":"' .. timestamp(now) .. '","data":{"session":' .. quote(session_of(s)) ..
    ',"messages":' .. list_of(s, ids)
  if of ~= '-' then body = body .. ',"retry_of":' .. quote(of) end
  if context ~= '' then body = body .. ',"context":' .. context end
  call('HSET', s.deliveries, 'seq', sequence, sequence, body .. data .. '}}')
  if by then call('HSET', s.deliveries, 'by ' .. sequence, int(by)) end
  call('ZADD', s.outbox, '0', to .. ' ' .. sequence)
  count_for(s, to, 1)
  call('PUBLISH', 'turnstile:signal:outbox', session_of(s))
  return to .. ' ' .. sequence
end

-- forget_record(s, sequence) deletes the text of a record and the facts about it: 'id sequence' is
-- its first sequence, 'why sequence' why it was given up, 'unsure sequence' that it may have been
-- delivered before it was redriven, 'refused sequence' how often its receiver refused it, and 'by
-- sequence' its deadline, if its messages have one.
local function forget_record(s, sequence)
  call('HDEL', s.deliveries, sequence, 'id ' .. sequence, 'why ' .. sequence, 'unsure ' .. sequence, 'refused ' .. sequence, 'by ' .. sequence)
end

-- line_records(s, to, most) returns the first members of s.outbox for a destination.
local function line_records(s, to, most)
  return call('ZRANGEBYLEX', s.outbox, '[' .. to .. ' ', '[' .. to .. ' \255', 'LIMIT', '0', most)
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

-- load_line(s, to) returns the state of a destination's queue: "token till attempts at unsure
-- error". token is the lease's until till; '-' and a token is the last lease, which was released.
-- attempts are those of the record at the head; the next one is not before at. unsure is 1 if one
-- of them may have been delivered. While a queue is leased, it is 1, or 2 if it was 1 before.
local function load_line(s, to)
  local stored = call('HGET', s.deliveries, 'line ' .. to) or ''
  local token, till, attempts, at, unsure = string.match(stored, '^(%S+) (%d+) (%d+) (%d+) (%d)')
  return {token = token or '-', till = tonumber(till) or 0, attempts = tonumber(attempts) or 0, at = tonumber(at) or 0,
    unsure = tonumber(unsure) or 0}
end

-- store_line(s, to, token, till, attempts, at, unsure, why) writes the state that load_line reads.
local function store_line(s, to, token, till, attempts, at, unsure, why)
  call('HSET', s.deliveries, 'line ' .. to, token .. ' ' .. int(till) .. ' ' .. int(attempts) .. ' ' .. int(at) .. ' ' .. int(unsure) ..
    ' ' .. (why or ''))
end

-- put_question(s, tasks, turn, number, question, now) delivers a question of a turn to the routes of
-- the turn's tasks, {id, route} each. The field question of s.deliveries remembers a line for each:
-- "member number ids route".
local function put_question(s, tasks, turn, number, question, now)
  local routes, ids = by_route(tasks)
  local open, rest = {}, ''
  if #question > math.min(BODY, BODIES / #routes) then
    local name = string.match(question, '^{"name":("[^"\\]*")')
    question, rest = '{"name":' .. (name and #name <= 1000 and name or '""') .. '}', ',"truncated":true'
  end
  for i, route in ipairs(routes) do
    local member = add_record(s, route, 'question.asked', ids[route], ',"turn":' .. quote(turn) .. ',"number":' .. number ..
      ',"question":' .. question .. rest, now, own_end(s, ids[route]))
    open[i] = member .. ' ' .. number .. ' ' .. table.concat(ids[route], ',') .. ' ' .. route
  end
  if #open > 0 then call('HSET', s.deliveries, 'question', table.concat(open, '\n')) end
end

-- close_question(s, now, decision) notifies the routes of the open question that it is closed, with
-- further fields of its decision if there is one. If no
-- deliverer can have tried to deliver the question yet, it is removed instead. A deliverer that has
-- leased the queue may have it, also after the head.
local function close_question(s, now, decision)
  local open = pcall('HGET', s.deliveries, 'question')
  if type(open) ~= 'string' or type(pcall('ZCARD', s.outbox)) ~= 'number' then return end
  call('HDEL', s.deliveries, 'question')
  for entry in string.gmatch(open, '[^\n]+') do
    local to, sequence, number, ids, route = string.match(entry, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
    local member, named = to .. ' ' .. sequence, {}
    local tried = load_line(s, to).till > now
      or call('HEXISTS', s.deliveries, 'line ' .. to) == 1 and line_records(s, to, 1)[1] == member
    if not tried and call('ZREM', s.outbox, member) == 1 then
      forget_record(s, sequence)
      count_for(s, to, -1)
    else
      for id in string.gmatch(ids, '[^,]+') do named[#named + 1] = id end
      add_record(s, route, 'question.closed', named, ',"number":' .. number .. (decision or ''), now)
    end
  end
end

-- removed(own) is the outcome of a message that an operator has deleted or archived.
local function removed(own)
  return '{"type":"turn_ended","status":"stopped","messages":[' .. quote(own) .. '],"error":"removed by operator"}'
end

-- naming(outcome, named) returns an outcome with another list of messages: a receiver must not see
-- messages of other destinations.
local function naming(outcome, named)
  local from, till = string.find(outcome, '"messages":%[[^%]]*%]')
  if not from or string.sub(outcome, from + 11, till) == named then return outcome end
  return string.sub(outcome, 1, from + 10) .. named .. string.sub(outcome, till + 1)
end

-- remember_routes(s, routes, ids) keeps the routes of ended messages, so that an undo can notify
-- their destinations after their tasks are deleted. The field routes of s.deliveries has lines
-- "own,own route", the newest first. Those of this end are all kept, because an undo removes the
-- last turn.
local function remember_routes(s, routes, ids)
  local text, new = call('HGET', s.deliveries, 'routes') or '', ''
  for n, route in ipairs(routes) do
    local named = {}
    for i, id in ipairs(ids[route]) do named[i] = own_id(s, id) end
    local first, of, rest = string.match(text, '^(%S+) ([^\n]*)\n(.*)$')
    if n == 1 and of == route and #first < 1000 then
      named[#named + 1], text = first, rest
    end
    new = table.concat(named, ',') .. ' ' .. route .. '\n' .. new
  end
  text = new .. (string.match(string.sub(text, 1, math.max(ROUTES - #new, 0)), '^.*\n') or '')
  call('HSET', s.deliveries, 'routes', text)
end

-- remembered_route(s, id) returns the route of a message without a task, or false. Call it before
-- the first write.
local function remembered_route(s, id)
  for ids, route in string.gmatch(call('HGET', s.deliveries, 'routes') or '', '(%S+) ([^\n]*)\n') do
    if string.find(',' .. ids .. ',', ',' .. own_id(s, id) .. ',', 1, true) then
      check_outbox(s)
      return route
    end
  end
  return false
end

-- keep_promises(s, tasks, outcome, now) records the outcome of ended messages: one record for each
-- route, which names its messages. tasks are {id, route} each. Every end of a message goes through
-- this function.
local function keep_promises(s, tasks, outcome, now)
  local routes, ids = by_route(tasks)
  if #routes == 0 then return end
  remember_routes(s, routes, ids)
  local status = string.match(outcome, '"status":"([a-z_]+)"') or 'failed'
  local kind, short = status, false
  if status == 'interrupted' and string.find(outcome, '"error":"rolled back', 1, true) then kind = 'rolled_back' end
  if #outcome > math.min(BODY, BODIES / #routes) then
    short = ',"outcome":{"type":"turn_ended","status":"' .. status .. '","turn":' .. (string.match(outcome, '"turn":("[^"]*")') or '""') .. '},"truncated":true'
  end
  for _, route in ipairs(routes) do
    local owed, by = 0, own_end(s, ids[route])
    for _, id in ipairs(ids[route]) do
      owed = owed + call('HDEL', s.owed, own_id(s, id))
      call('HDEL', s.deliveries, 'deliver_by ' .. own_id(s, id))
    end
    local data = short or ',"outcome":' .. naming(outcome, list_of(s, ids[route]))
    add_record(s, route, 'message.' .. kind, ids[route], data, now, by)
    count_for(s, string.match(route, '^%S+'), -owed)
  end
end

-- give_up(s, to, sequence, why, unsure, now) sets a record aside for an operator. A session keeps its
-- newest 1,000 of these.
local function give_up(s, to, sequence, why, unsure, now)
  local member = to .. ' ' .. sequence
  if call('ZREM', s.outbox, member) == 0 then return end
  call('ZADD', s.undelivered, int(now), member)
  call('HSET', s.deliveries, 'why ' .. sequence, why)
  if unsure then call('HSET', s.deliveries, 'unsure ' .. sequence, '1') end
  call('HDEL', s.deliveries, 'line ' .. to, 'refused ' .. sequence)
  count_for(s, to, -1)
  if call('ZCARD', s.undelivered) > 1000 then
    forget_record(s, sequence_of(call('ZPOPMIN', s.undelivered)[1]) or '')
  end
end

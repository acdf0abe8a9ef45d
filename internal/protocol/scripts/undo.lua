-- Code generated from ../lua/undo.lua by go generate; DO NOT EDIT.
--
-- undo: removes the last turn that ended: its entries from the transcript, and its dead letters. For a retry, the same
-- texts become a message at the head of the queue. It is refused while a turn has begun and not ended, or if the
-- session has changed since the caller looked.
--
-- KEYS sentinel run record transcript pending archived owed outbox deliveries audit call
-- ARGS
--   s.task             prefix of the session's task hashes
--   s.prefix           of task ids
--   s.by               who does it, '' if unknown: see audit
--   turn               to undo
--   id                 of the task to enqueue, or ''
--   msg                of the task
--   sid                the transcript's id
--   entries number     how many the turn has, at most 10,000; 0: it left none
--   length number      how many the transcript had when it was read, and
--   written number     how many were written to it by then: run's entries,
--     or 0 if these are of another transcript
--   unsaid             run's field then, or ''
--   messages list      task ids of the turn's messages
-- RETURNS
--   'ok' removed:int now:int
--   'held'
--   'changed'          look again: nothing is written

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_transcript, s_pending, s_archived, s_owed, s_outbox, s_deliveries, s_audit, s_call, s_task, s_prefix, s_by = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], ARGV[1], ARGV[2], ARGV[3]
local function fields_1(key)
  local v = call('HMGET', key, 'sid', 'entries', 'phase', 'unsaid')
  return {sid = v[1], entries = v[2], phase = v[3], unsaid = v[4]}
end

-- count_for(s, to, n) adds n to a destination's count of undelivered outcomes.
local function count_for(s_deliveries, to, n)
  if n ~= 0 and call('HINCRBY', s_deliveries, 'n ' .. to, n) <= 0 then call('HDEL', s_deliveries, 'n ' .. to) end
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
local LAST = 2 ^ 52 -- no sequence is above it. It is exact as a number, and 140,000 years away as a time

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
local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s_audit, s_by, did, what, now)
  pcall('RPUSH', s_audit, '{"at":' .. string.format('%d', now) .. ',"by":' .. quote(s_by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s_audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s_audit, AUDIT_TTL)
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

-- keep_result(s, ...) stores words under s.call for five minutes, for a repetition of the call.
-- Package script gives up much sooner.
local function keep_result(s_call, ...)
  call('SET', s_call, table.concat({...}, ' '), 'PX', '300000')
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- promise(s, id, route) records that the message's outcome must be delivered to its route. Returns
-- whether that is new.
local function promise(s_deliveries, s_owed, s_prefix, id, route)
  local new = call('HSET', s_owed, own_id(s_prefix, id), route)
  count_for(s_deliveries, string.match(route, '^%S+'), new)
  -- That of an earlier run is over.
  if new == 1 then call('HDEL', s_deliveries, 'deliver_by ' .. own_id(s_prefix, id)) end
  return new == 1
end

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- remembered_route(s, id) returns the route of a message without a task, or false. Call it before
-- the first write.
local function remembered_route(s_deliveries, s_outbox, s_owed, s_prefix, id)
  for ids, route in string.gmatch(call('HGET', s_deliveries, 'routes') or '', '(%S+) ([^\n]*)\n') do
    if string.find(',' .. ids .. ',', ',' .. own_id(s_prefix, id) .. ',', 1, true) then
      check_outbox(s_deliveries, s_outbox, s_owed)
      return route
    end
  end
  return false
end

-- removed(own) is the outcome of a message that an operator has deleted or archived.
local function removed(own)
  return '{"type":"turn_ended","status":"stopped","messages":[' .. quote(own) .. '],"error":"removed by operator"}'
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
end

local turn, id, msg, sid, entries, length, written, unsaid = ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11]
local at = 12
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local messages = list()

local now, again = now_ms(), id ~= ''
-- If the turn was removed before, call is "entries task": this is a repetition, or another call has
-- undone the same turn. The message is enqueued unless that was done.
local v = call('HMGET', s_record, 'session_id')
local record_session_id = v[1]
local n, put_in = string.match(call('GET', s_call) or '', '^(%d+) (.*)$')
n = tonumber(n)
if n and (not again or put_in ~= '') then return {'ok', n, now} end
local run, out = fields_1(s_run), n
if call('EXISTS', s_sentinel) == 1 or (run.phase or 'idle') ~= 'idle' then return {'held'} end
if (record_session_id or '') ~= sid or not out and (run.unsaid or '') ~= unsaid then return {'changed'} end

local counted = run.sid == sid
if not out then
  local so_far = counted and tonumber(run.entries) or 0
  if call('LLEN', s_transcript) ~= length or so_far ~= written then return {'changed'} end
  n = entries
end
call('LLEN', s_pending)
local tasks, dead, origin = {}, {}, false
for i, task in ipairs(messages) do
  tasks[i] = {id = task, route = route_of(s_deliveries, s_outbox, s_owed, s_task, task) or call('EXISTS', s_task .. task) == 0 and remembered_route(s_deliveries, s_outbox, s_owed, s_prefix, task)}
  if call('ZSCORE', s_archived, task) then dead[#dead + 1] = task end
end
if not out and entries == 0 and #dead < #messages then return {'changed'} end -- somebody has run or deleted one
if again and messages[1] then origin = call('HGET', s_task .. messages[1], 'origin') end

if not out and entries > 0 then
  call('LTRIM', s_transcript, 0, -1 - n)
  -- The count shows warm agents that the transcript has changed: it only rises.
  if counted then call('HINCRBY', s_run, 'entries', 1) end
  local routes, ids = by_route(tasks)
  for _, route in ipairs(routes) do add_record(s_deliveries, s_outbox, s_prefix, s_task, route, 'message.withdrawn', ids[route], ',"turn":' .. quote(turn), now) end
end
for _, task in ipairs(dead) do
  call('ZREM', s_archived, task)
  call('DEL', s_task .. task)
end
call('HSET', s_record, 'updated_at', string.format('%d', now))
if n > 0 then call('HSET', s_record, 'undone', n .. ' ' .. turn .. ' ' .. id) end
keep_result(s_call, n, id)
audit(s_audit, s_by, again and 'retry' or 'undo', turn, now)
if again then
  call('HSET', s_task .. id, 'msg', msg, 'state', 'pending', 'pending_since', string.format('%d', now) .. '000000', 'seen', string.format('%d', now))
  if origin then call('HSET', s_task .. id, 'origin', origin) end -- its steps have the same idempotency keys
  call('RPUSH', s_pending, id)
  for _, t in ipairs(tasks) do
    if t.route then -- the first one's
      local route = string.gsub(t.route, '^(%S+) %S+', '%1 ' .. own_id(s_prefix, t.id), 1)
      call('HSET', s_task .. id, 'route', route)
      promise(s_deliveries, s_owed, s_prefix, id, route)
      break
    end
  end
end
return {'ok', n, now}

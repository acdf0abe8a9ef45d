-- Code generated from ../lua/accept.lua by go generate; DO NOT EDIT.
--
-- accept: stores a message, unless there is one with its id, and notifies the session's owner. Safe
-- to repeat. One call drops at most 100 messages or about 4 MiB from a queue that is too long.
-- Later calls drop the rest.
--
-- The fast path is for the common case: a new message without a delay or a route, for a session
-- without an owner. It accepts messages of many sessions in one call. In other cases it does
-- nothing, and the sender sends the full path.
--
-- KEYS sentinel run record followups events pending active scheduled retry processed processed_day archived failed
-- KEYS failed_day owed outbox deliveries idem
-- ARGS
--   s.events_cap int      see append_event
--   s.short number        bytes
--   s.large_bytes int
--   s.longest number      how many bytes a task's msg may have
-- EACH
--   s.task                prefix of the session's task hashes
--   session               its key
--   id                    of the task
--   msg                   the task, as asynq encodes it
--   nonce                 of this sender, in msg
--   mode                  busy mode, or '' for the session's
--   line_cap number       how many messages may wait, at most half of them (rounded up) delayed
--   to                    destination of the outcome; '': the session's own, else fallback; '-': none
--   hash                  of the message as the sender wants it, if it chose the id, else ''
--   idem_ttl int          how long another hash is a conflict, ms
-- EACH
--   s.prefix              of task ids
--   delay number          how long it waits before it joins the queue, ms
--   followup              JSON object
--   fallback              destination, or ''
--   context               JSON for the destination, or ''
--   deliver_by number     deadline of the delivery, ms; 0: the destination's
--   lasts number          the same from now on, ms; 0: see deliver_by
--   outbox_cap number     how many deliveries the session may owe and store
--   after                 id of the task that it must directly follow, or ''
--   agent                 that the session gets with it; '': the one by its key
--   full list             destinations that have reached their cap over all sessions
-- RETURNS
--   result: now:int state n:int duplicate:flag
--     duplicate: 1 if there was a message with its id, of another Send. state:
--     'queued'     behind a turn; n = its position, which counts the running turn
--     'ends'       likewise, and the turn is to end or its owner died: the session is to be claimed
--     'idle'       nothing runs: the session is to be claimed; n = when, ms
--     'scheduled'  n = when, ms
--     'running', 'completed', 'archived'; 'completed' also of this call, repeated after the result
--       was deleted
--     'busy'       refused: a turn is running, or has begun and waits till n, ms
--     'full'       refused, n = the cap of follow-ups
--     'line'       refused, n = line_cap
--     'outbox'     refused, n = outbox_cap, also for a destination in full
--     'not_last'   refused: another message than after is the session's last
--     'agent'      refused: the session has another agent
--     'conflict'   refused: the id was used with another hash
--     'expired'    refused: it was carried out with this hash, and is no longer there
--   'special'      the fast path has done nothing
--
-- A refused message is not stored, and its id is free: a repetition of the call decides again.

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_followups, s_events, s_pending, s_active, s_scheduled, s_retry, s_processed, s_processed_day, s_archived, s_failed, s_failed_day, s_owed, s_outbox, s_deliveries, s_idem, s_events_cap, s_short, s_large_bytes, s_longest, s_task, s_prefix = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], KEYS[18], ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[15]
local function fields_1(key)
  local v = call('HMGET', key, 'dropped', 'omitted')
  return {dropped = v[1], omitted = v[2]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'state', 'seen', 'seq')
  return {state = v[1], seen = v[2], seq = v[3]}
end
local function fields_3(key)
  local v = call('HMGET', key, 'token', 'worker', 'fence', 'phase', 'mode', 'cap', 'hold', 'drop', 'debounce', 'warm', 'stop', 'rollback', 'interrupt', 'question')
  return {token = v[1], worker = v[2], fence = v[3], phase = v[4], mode = v[5], cap = v[6], hold = v[7], drop = v[8], debounce = v[9], warm = v[10], stop = v[11], rollback = v[12], interrupt = v[13], question = v[14]}
end
local function fields_4(key)
  local v = call('HMGET', key, 'ids', 'sid', 'fence')
  return {ids = v[1], sid = v[2], fence = v[3]}
end
local function fields_5(key)
  local v = call('HMGET', key, 'session_id', 'undone')
  return {session_id = v[1], undone = v[2]}
end

-- DEFAULT_AGENT is the agent of sessions that have no other one: internal/protocol/agents.
local DEFAULT_AGENT = 'default'

-- IN_DOUBT is the sentinel's value while a dead owner has time to report that it lives.
local IN_DOUBT = 'in doubt'

-- append_event(s, event, start) writes an event into the stream, with its turn's start if the
-- stream does not have that yet. The stream keeps about s.events_cap entries. Events of more than
-- s.short bytes are large: together they may have s.large_bytes. If s.large_bytes is 0, nothing is
-- counted. Short events are bounded by their number.
--
-- Large events are counted in two generations, in the run record's stream: "bytes of the older one,
-- of the younger one, its first id". If the next event takes the younger one past half of the
-- limit, the younger one becomes the older one, the event begins a new one, and all earlier events
-- are deleted. An event above the limit stays until the next large one.
local function append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, event, start)
  local size, id = #event, false
  if (start or '') == '' then
    id = pcall('XADD', s_events, 'MAXLEN', '~', s_events_cap, '*', 'e', event)
  else
    id, size = pcall('XADD', s_events, 'MAXLEN', '~', s_events_cap, '*', 's', start, 'e', event), size + #start
  end
  if size <= s_short or s_large_bytes == '0' or type(id) ~= 'string' then return end
  local was = pcall('HGET', s_run, 'stream')
  if type(was) == 'table' then return end
  local older, younger, from = string.match(was or '', '^(%d+) (%d+) (%S+)$')
  older, younger, from = tonumber(older) or 0, tonumber(younger) or 0, from or '0'
  local first, most = false, tonumber(s_large_bytes) -- first: id of the first event that stays
  if younger + size > most / 2 then
    first, older, younger, from = from, younger, 0, id
  end
  younger = younger + size
  if older + younger > most then first, older = from, 0 end
  if first then pcall('XTRIM', s_events, 'MINID', '~', first) end
  pcall('HSET', s_run, 'stream', string.format('%d', older) .. ' ' .. string.format('%d', younger) .. ' ' .. from)
end

-- varint(n) returns n as protobuf writes it.
local function varint(n)
  local text = ''
  while n >= 128 do
    text = text .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return text .. string.char(n)
end

-- varint_at(msg, at) returns the number at that place, and where it ends; or false if there is
-- none.
local function varint_at(msg, at)
  local n, factor = 0, 1
  for i = at, at + 9 do
    local b = string.byte(msg, i)
    if not b then return false end
    n = n + b % 128 * factor
    if b < 128 then return n, i end
    factor = factor * 128
  end
  return false
end

-- without(msg, numbers) returns a TaskMessage without the fields of these numbers. It leaves
-- everything after the first thousand fields, or from an unreadable field on, as it is.
local function without(msg, numbers)
  local kept, from, at = {}, 1, 1
  for _ = 1, 1000 do
    local tag, last = varint_at(msg, at)
    local kind, n = tag and tag % 8, false
    if kind == 0 then
      n, last = varint_at(msg, last + 1)
    elseif kind == 1 then
      n, last = true, last + 8
    elseif kind == 2 then
      n, last = varint_at(msg, last + 1)
      if n then last = last + n end
    elseif kind == 5 then
      n, last = true, last + 4
    end
    if not n or last > #msg then break end
    if numbers[math.floor(tag / 8)] then
      kept[#kept + 1] = string.sub(msg, from, at - 1)
      from = last + 1
    end
    at = last + 1
  end
  return table.concat(kept) .. string.sub(msg, from)
end

-- with_error(msg, why, seconds) returns a TaskMessage after a failure: 7 error_msg, 11
-- last_failed_at. It removes those of earlier failures, so that the task does not grow.
local function with_error(msg, why, seconds)
  return without(msg, {[7] = true, [11] = true}) .. '\58' .. varint(#why) .. why .. '\88' .. varint(seconds)
end

-- archive(s, id, msg, unique, why, outcome, now) makes a message a dead letter. The caller counts
-- it with count_archived. The field seen becomes arrived: /resume reads the message's place there,
-- and after a Run in asynqmon the message does not expire again at once.
--
-- If the message failed or was stopped without entries, the caller also sets run's unsaid, "fence id" with the last
-- turn's fence: /undo and /retry do not take an earlier turn for this message's.
local function archive(s_archived, s_task, id, msg, unique, why, outcome, now)
  local seconds, seen = math.floor(now / 1000), call('HGET', s_task .. id, 'seen')
  call('ZADD', s_archived, string.format('%d', seconds), id)
  call('HSET', s_task .. id, 'state', 'archived', 'result', outcome, 'msg', (with_error(msg, why, seconds)))
  call('HSET', s_task .. id, 'arrived', seen or string.format('%d', now))
  call('HDEL', s_task .. id, 'pending_since', 'seen', 'redelivered', 'deaths', 'died', 'quiet', 'first')
  if unique then call('DEL', unique) end
end

-- begun(run) returns whether a turn has begun and not ended. Without a sentinel it is parked, or its owner died.
local function begun(run) return run.fence and (run.phase == 'starting' or run.phase == 'running' or run.phase == 'parked') end

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- add(counter, day, n) adds n to one of asynq's counters, and to that of the day, which lives for
-- 90 days.
local function add(counter, day, n)
  if n == 0 then return end
  if pcall('INCRBY', day, n) == n then call('EXPIRE', day, 90 * 24 * 3600) end
  pcall('INCRBY', counter, n)
end
local function count_archived(s_failed, s_failed_day, s_processed, s_processed_day, n)
  add(s_processed, s_processed_day, n)
  add(s_failed, s_failed_day, n)
end

-- goes_first(s, own, first) returns whether a message interrupts or rolls back, and so goes to the head
-- of the queue. first is its field.
local function goes_first(s_followups, own, first) return first and call('HEXISTS', s_followups, own) == 1 end
local BODY, BODIES = 256 * 1024, 8 * 1024 * 1024 -- bytes of an outcome or question that a record carries, and all records of one end

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

-- held_lock(id, unique) returns the task's unique key if the task still holds that lock, or false.
local function held_lock(id, unique)
  return unique and unique ~= '' and call('GET', unique) == id and unique
end

-- load_msg(s, id) returns the task's msg, false if the task is gone, and its unique lock, or false.
local function load_msg(s_task, id)
  local v = call('HMGET', s_task .. id, 'msg', 'unique_key')
  local t_msg, t_unique_key = v[1], v[2]
  return t_msg, held_lock(id, t_unique_key)
end

-- lock_of(s, id) returns the unique lock that a task holds, or false. It does not read the msg.
local function lock_of(s_task, id) return held_lock(id, call('HGET', s_task .. id, 'unique_key')) end

-- tombstone(s, id, bytes) returns the TaskMessage that replaces one that is too long to be read. 1
-- type, 2 payload, 3 id, 4 queue; Limits.DecodePayload reads too_long.
local function tombstone(s_task, id, bytes)
  local payload, queue = '{"v":1,"text":"","too_long":' .. string.format('%d', bytes) .. '}', string.match(s_task, '{(.*)}')
  return '\10' .. varint(17) .. 'turnstile:message' .. '\18' .. varint(#payload) .. payload ..
    '\26' .. varint(#id) .. id .. '\34' .. varint(#queue) .. queue
end

-- too_long(s, id) returns how many bytes a task's msg has, if these are more than s.longest, or
-- false. Such a msg is not read: it may have tens of megabytes.
local function too_long(s_longest, s_task, id)
  local bytes = call('HSTRLEN', s_task .. id, 'msg')
  return bytes > s_longest and bytes
end

-- load_short(s, id) is load_msg, with a tombstone in place of a msg that is too long.
local function load_short(s_longest, s_task, id)
  local bytes = too_long(s_longest, s_task, id)
  if bytes then return tombstone(s_task, id, bytes), lock_of(s_task, id) end
  return load_msg(s_task, id)
end

-- next_at(s, now) returns when a message can be taken: now or earlier, a later ms, or false for
-- never. For messages that are collected the time may be too early: the claim finds the end of
-- their quiet window.
local function next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
  local id = call('LINDEX', s_pending, '-1')
  if id then
    local quiet = pcall('HGET', s_task .. id, 'quiet')
    return type(quiet) == 'string' and tonumber(string.match(quiet, '^%d+')) or now
  end
  if call('HGET', s_run, 'stopping') == '1' then return now end -- for the claim to archive
  if call('EXISTS', s_scheduled, s_retry) == 0 then return false end
  local at = false
  for _, zset in ipairs({s_scheduled, s_retry}) do
    local z = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if z[2] and (not at or tonumber(z[2]) * 1000 < at) then at = tonumber(z[2]) * 1000 end
  end
  return at
end
local NOTES = 50

-- noted_ids(dropped) returns the ids of the record's dropped as an array. If it cannot be read, the
-- array is empty.
local function noted_ids(dropped)
  local ok, ids = try(cjson.decode, dropped or '')
  if ok and type(ids) == 'table' then return ids end
  return {}
end

-- note_dropped(s, drops) adds dropped messages, each with its id, to the notes.
local function note_dropped(s_record, drops)
  local n, newest = fields_1(s_record), {}
  local ids = noted_ids(n.dropped)
  for _, d in ipairs(drops) do ids[#ids + 1] = d.id end
  local over = math.max(#ids - NOTES, 0)
  for i = over + 1, #ids do newest[#newest + 1] = ids[i] end
  call('HSET', s_record, 'dropped', cjson.encode(newest), 'omitted', string.format('%d', ((tonumber(n.omitted) or 0) + over)))
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

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
end

local session, id, msg, nonce, mode, line_cap, to, hash, idem_ttl, delay, followup, fallback, context, deliver_by, lasts, outbox_cap, after, agent = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], tonumber(ARGV[11]), ARGV[12], ARGV[13], ARGV[14], tonumber(ARGV[16]), ARGV[17], ARGV[18], ARGV[19], tonumber(ARGV[20]), tonumber(ARGV[21]), tonumber(ARGV[22]), ARGV[23], ARGV[24]
local at = 25
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local full = list()
local now = now_ms()

-- signal_warm(run, session) notifies the last owner, which may have a warm agent of the session, a
-- little before the other workers.
local function signal_warm(run, session)
  if run.warm == '1' then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"ready","session":"' .. session .. '"}') end
end
local MOST, BYTES = 100, 4 * 1024 * 1024 -- that one call drops
local NEWEST = 1000 -- ids at the end of the queue among which a message is searched
local own = own_id(s_prefix, id)

-- 1. The id's record.
local t = fields_2(s_task .. id)
local new, used = not t.state, hash ~= '' and call('GET', s_idem)
if used and string.sub(used, 1, #hash) ~= hash then return {now, 'conflict', 0, 0} end
if new and used then
  if used == hash .. ' ' .. nonce then return {now, 'completed', 0, 0} end
  return {now, 'expired', 0, 0}
end
local state, duplicate = t.state or delay > 0 and 'scheduled' or 'pending', 0
if not new then
  local found = not too_long(s_longest, s_task, id) and call('HGET', s_task .. id, 'msg')
  if not found or not string.find(found, nonce, 1, true) then duplicate = 1 end
end
local known, of_another = call('HGET', s_followups, own), false
if known then
  of_another = not (t.seen or t.seq)
  if of_another then known = false end
end
local run = fields_3(s_run)
local v = call('HMGET', s_record, 'created_at', 'queue', 'reply_to', 'agent', 'fence')
local record_created_at, record_queue, record_reply_to, record_agent, record_fence = v[1], v[2], v[3], v[4], v[5]
local ok, set = try(cjson.decode, record_queue or '{}') -- by /queue
if not ok or type(set) ~= 'table' then set = {} end

-- within(n, least, most) returns a setting as a whole number. It returns false, as for no setting,
-- if it cannot be read or only a newer version knows it.
local function within(n, least, most)
  n = tonumber(n)
  return n and n >= least and n <= most and math.floor(n)
end
local policies = {new = 'new', old = 'old', summarize = 'summarize'}

-- next_seq() returns a new message's place among others.
local function next_seq()
  local seq = pcall('HINCRBY', s_record, 'seq', 1)
  if type(seq) == 'number' then return seq end
  call('HSET', s_record, 'seq', 1) -- it cannot be read
  return 1
end

-- 2. Its agent, and where the outcome goes.
local bound = record_agent or record_fence and DEFAULT_AGENT
if new and agent ~= '' and bound and bound ~= agent then return {now, 'agent', 0, 0} end
if to == '' then to = record_reply_to or fallback end
local routed, owed = new and to ~= '' and to ~= '-', false
if routed then
  check_outbox(s_deliveries, s_outbox, s_owed)
  owed = call('HGET', s_owed, own) -- to a message with this id that an operator has deleted
  for _, name in ipairs(full) do
    if name == to then return {now, 'outbox', outbox_cap, 0} end
  end
  if call('HLEN', s_owed) + call('ZCARD', s_outbox) >= outbox_cap then return {now, 'outbox', outbox_cap, 0} end
end

-- store(at, ...) stores the task of a new message, first seen at that time, with further fields.
local function store(at, ...)
  call('HSET', s_task .. id, 'msg', msg, 'state', state, 'seq', next_seq(), 'seen', string.format('%d', at), ...)
  if routed then
    local route = to .. ' - ' .. context
    call('HSET', s_task .. id, 'route', route)
    if owed then keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, {{id = id, route = owed}}, ('{"type":"turn_ended","status":"stopped","messages":[' .. quote(own) .. '],"error":"removed by operator"}'), now) end
    promise(s_deliveries, s_owed, s_prefix, id, route)
    if lasts > 0 then deliver_by = now + lasts end
    if deliver_by > 0 then call('HSET', s_deliveries, 'deliver_by ' .. own, string.format('%d', deliver_by)) end
  end
  if agent ~= '' and not bound then call('HSET', s_record, 'agent', agent) end
  if hash ~= '' then call('SET', s_idem, hash .. ' ' .. nonce, 'PX', idem_ttl) end
end

-- mark_seen(at) gives an existing message its place among others and its age. The session's first
-- message creates the session's record.
local function mark_seen(at)
  if of_another then call('HDEL', s_followups, own) end
  if not record_created_at then call('HSET', s_record, 'v', '1', 'created_at', string.format('%d', now)) end
  if new then return end
  if not t.seq then call('HSET', s_task .. id, 'seq', next_seq()) end
  if not t.seen then call('HSET', s_task .. id, 'seen', string.format('%d', at)) end
end

-- 3. A message that runs, ended or is delayed.
if state == 'active' then return {now, 'running', 1, duplicate} end
if state == 'completed' or state == 'archived' then return {now, state, 0, duplicate} end
local delayed_cap = math.ceil(line_cap / 2)
local waiting = call('LLEN', s_pending)
if state ~= 'pending' then
  local score = math.floor((now + delay) / 1000)
  if new then
    local delayed = call('ZCARD', s_scheduled) + 1
    if delayed > delayed_cap or delayed + waiting > line_cap then
      return {now, 'line', line_cap, 0}
    end
    store(math.max(score * 1000, now))
    call('ZADD', s_scheduled, string.format('%d', score), id)
  else
    score = tonumber(call('ZSCORE', state == 'retry' and s_retry or s_scheduled, id) or 0)
  end
  mark_seen(math.max(score * 1000, now))
  return {now, 'scheduled', score * 1000, duplicate}
end
-- 4. A message that must follow another one.
if new and after ~= '' then
  local follows = call('LINDEX', s_pending, 0) == after
  if waiting == 0 then
    local last = fields_4(s_run)
    local ok, ids = try(cjson.decode, last.ids or '[]')
    for _, other in ipairs(ok and type(ids) == 'table' and ids or {}) do follows = follows or other == after end
    local talk = fields_5(s_record)
    -- /new has begun another transcript, or /undo has removed the last turn.
    if talk.session_id ~= last.sid or string.match(talk.undone or '', '^%d+ (%S+)') == s_prefix .. (last.fence or '') then follows = false end
  end
  if not follows then return {now, 'not_last', 0, 0} end
end
if new then waiting = waiting + 1 end

-- 5. Whether there is a turn, and the message's mode. A turn without an owner is parked, or its owner died. If
-- its messages were deleted, nothing is left to wait for.
local owner = call('GET', s_sentinel)
local ownerless = (not owner or owner == IN_DOUBT) and begun(run) and call('EXISTS', s_active) == 1
local parked = ownerless and run.phase == 'parked'
local busy = owner and owner == run.token or ownerless
if mode == '' then mode = type(set.mode) == 'string' and set.mode or run.mode or 'queue' end
local cap = within(set.cap, 1, 10000) or tonumber(run.cap) or waiting
local drop = policies[set.drop] or policies[run.drop] or 'new'
-- A collected message waits for more, also if others already wait for more.
local collected = mode == 'collect' and not known and (busy or waiting > 1)
local quiet = string.format('%d', (now + (within(set.debounce_ms, 0, 3600000) or tonumber(run.debounce) or 0))) .. ' ' .. string.format('%d', (math.max(cap, 1)))

-- Delayed messages are counted only where they matter: they may be half of the queue.
local over = waiting > line_cap or waiting > line_cap - delayed_cap and waiting + call('ZCARD', s_scheduled) > line_cap

-- Its place, from the end of the queue. False: so many messages came after it that it stays there
-- in any mode, or a /stop has taken it out of the queue.
local place = 0
if not new and (busy or over) and call('LINDEX', s_pending, 0) ~= id then place = call('LPOS', s_pending, id, 'MAXLEN', NEWEST) end

-- A message that replaces the running turn makes room itself.
local first = mode == 'interrupt' or mode == 'rollback'
local urgent = first and (run.phase == 'running' or parked) and place
local full = waiting > cap and not urgent

-- again_at() returns when a turn that waits for its next attempt goes on, or 0.
local function again_at()
  local at = parked and string.match(run.question or '', '^%d+') ~= run.fence and tonumber(run.hold) or 0
  return at > now and at or 0
end

-- 6. Whether it is refused, and the messages that it drops.
local refusal, drops, most = false, {}, cap
if new and busy then
  if mode == 'reject' then
    refusal = 'busy'
  elseif full and drop == 'new' then
    refusal = 'full'
  elseif full then
    local most = math.min(waiting - cap, MOST)
    local oldest, bytes = call('LRANGE', s_pending, -most - 1, -1), 0
    for i = #oldest, 1, -1 do
      if #drops == most or bytes >= BYTES then break end
      local old = oldest[i]
      local ahead = goes_first(s_followups, own_id(s_prefix, old), call('HGET', s_task .. old, 'first'))
      local msg, unique = load_short(s_longest, s_task, old)
      if msg and old ~= id and not ahead then drops[#drops + 1] = {id = old, msg = msg, unique = unique, route = route_of(s_deliveries, s_outbox, s_owed, s_task, old)} end
      bytes = bytes + #(msg or '')
    end
    call('ZCARD', s_archived)
  end
end
-- A message that drops others makes room itself.
if over and new and not refusal and #drops == 0 then refusal, most = 'line', line_cap end
if refusal then
  return {now, refusal, refusal == 'busy' and again_at() or most, 0}
end

-- 7. It joins the queue.
if new then
  store(now, 'pending_since', string.format('%d', now) .. '000000')
  call(busy and urgent and 'RPUSH' or 'LPUSH', s_pending, id)
end
mark_seen(now)
-- A repetition gets no new window.
if collected and (new or not (t.seen or t.seq)) then call('HSET', s_task .. id, 'quiet', quiet) end
if mode == 'steer' and busy and not known then call('HSET', s_task .. id, 'steer', '1') end -- for steer.lua
if not busy then
  local at = next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now) or now
  if collected and waiting >= cap then at = now end -- with so many messages the wait is over
  if not owner and at <= now then signal_warm(run, session) end
  return {now, 'idle', at, duplicate}
end

-- 8. Dropped messages become dead letters.
for _, d in ipairs(drops) do
  local why = 'dropped: more than ' .. cap .. ' messages were waiting'
  local outcome = '{"type":"turn_ended","status":"dropped","messages":[' .. quote(own_id(s_prefix, d.id)) ..
    '],"error":"' .. why .. '","reason":"' .. drop .. '"}'
  call('LREM', s_pending, -1, d.id)
  archive(s_archived, s_task, d.id, d.msg, d.unique, why, outcome, now)
  keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, {d}, outcome, now)
  call('HDEL', s_followups, own_id(s_prefix, d.id))
  append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, outcome)
end
count_archived(s_failed, s_failed_day, s_processed, s_processed_day, #drops)
if drop == 'summarize' and #drops > 0 then note_dropped(s_record, drops) end
waiting = waiting - #drops

-- signal(kind) requests this of the present turn only. One without an owner has nobody to be notified.
local function signal(kind)
  call('HSET', s_run, kind, run.fence)
  if not ownerless then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"' .. kind .. '","token":"' .. owner .. '","fence":' .. run.fence .. '}') end
end

-- 9. The owner is notified, and the follow-up is recorded.
local position
if urgent and not known then
  if not new then
    call('LREM', s_pending, 1, id)
    call('RPUSH', s_pending, id)
  end
  signal(mode)
  position = 2
elseif place then
  position = waiting - place + 1
else
  local order = string.match(known or '', '"order":(%d+)')
  position = order and tonumber(order) or math.max(waiting - NEWEST + 1, 2)
end
if not known then
  if first then call('HSET', s_task .. id, 'first', '1') end
  call('HSET', s_followups, own, '{"mode":"' .. mode .. '","order":' .. position .. ',"arrived_at":' .. string.format('%d', now) ..
    ',"state":"' .. (collected and 'collected' or 'queued') .. '",' .. string.sub(followup, 2))
  if mode == 'steer' then signal('steer') end
  append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, '{"type":"queued","messages":[' .. quote(own) .. '],"mode":"' .. mode .. '","position":' .. position .. '}')
end
return {now, ownerless and (not parked or urgent or requested(run, run.fence) ~= '') and 'ends' or 'queued', position, duplicate}

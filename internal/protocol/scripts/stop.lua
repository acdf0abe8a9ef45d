-- Code generated from ../lua/stop.lua by go generate; DO NOT EDIT.
--
-- stop: requests the end of the running turn, and moves all waiting messages to a separate list.
-- Each call archives a batch of that list. The request applies to the turn that it found.
--
-- KEYS sentinel run record followups events pending processed processed_day archived failed failed_day stopped
-- KEYS owed outbox deliveries audit call
-- ARGS
--   s.task               prefix of the session's task hashes
--   s.by                 who does it, '' if unknown: see audit
--   s.prefix             of task ids
--   s.events_cap int     see append_event
--   s.short number       bytes
--   s.large_bytes int
--   s.longest number     how many bytes a task's msg may have
--   batch_limits         "messages bytes" that a call archives
--   number number        this call's: 1, 2 ...
--   deadline number      do nothing after this ms: the sender has given up, and does not mean
--     messages that came since
-- RETURNS
--   result: phase fence:int meant:int more:flag wake:flag
--     phase: 'idle', 'starting', 'running' or 'parked'; meant: how many messages it applies to; more: 1 if more are to
--     be archived: call again with the next number; wake: 1 if the turn has no owner: the session is to be claimed
--   'earlier'            this call has archived a batch of an earlier stop: call again with the
--     same number
--   'late'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_followups, s_events, s_pending, s_processed, s_processed_day, s_archived, s_failed, s_failed_day, s_stopped, s_owed, s_outbox, s_deliveries, s_audit, s_call, s_task, s_by, s_prefix, s_events_cap, s_short, s_large_bytes, s_longest = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local WHY_STOPPED = 'stopped by user'

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

-- archive_as_stopped(s, t, now) archives t, {id, msg, unique, route}, because of a /stop. It was
-- not part of a turn. Returns how many messages that were: 0 if the task is gone.
local function archive_as_stopped(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_task, t, now)
  local own = own_id(s_prefix, t.id)
  pcall('HDEL', s_followups, own)
  if not t.msg then return 0 end
  local outcome = '{"type":"turn_ended","status":"stopped","messages":[' .. quote(own) .. '],"error":"' .. WHY_STOPPED .. '"}'
  archive(s_archived, s_task, t.id, t.msg, t.unique, WHY_STOPPED, outcome, now)
  keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, {t}, outcome, now)
  count_archived(s_failed, s_failed_day, s_processed, s_processed_day, 1)
  append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, outcome)
  return 1
end

-- archive_stopped(s, batch, now) archives the batch, which is the oldest part of s.stopped by now.
-- Returns how many messages that were.
local function archive_stopped(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_stopped, s_task, batch, now)
  local n = 0
  for _, t in ipairs(batch) do
    call('RPOP', s_stopped)
    n = n + archive_as_stopped(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_task, t, now)
  end
  return n
end
local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s_audit, s_by, did, what, now)
  pcall('RPUSH', s_audit, '{"at":' .. string.format('%d', now) .. ',"by":' .. quote(s_by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s_audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s_audit, AUDIT_TTL)
end

-- noted_ids(dropped) returns the ids of the record's dropped as an array. If it cannot be read, the
-- array is empty.
local function noted_ids(dropped)
  local ok, ids = try(cjson.decode, dropped or '')
  if ok and type(ids) == 'table' then return ids end
  return {}
end

-- forget_notes(s) deletes the notes: their transcript was replaced.
local function forget_notes(s_record)
  local v = call('HMGET', s_record, 'dropped', 'omitted', 'omitted_told')
  local n_dropped, n_omitted, n_omitted_told = v[1], v[2], v[3]
  local gone = (tonumber(n_omitted) or 0) + #noted_ids(n_dropped)
  if gone == (tonumber(n_omitted_told) or 0) then return end
  call('HSET', s_record, 'dropped', '', 'omitted', string.format('%d', gone), 'omitted_told', string.format('%d', gone))
end

-- keep_result(s, ...) stores words under s.call for five minutes, for a repetition of the call.
-- Package script gives up much sooner.
local function keep_result(s_call, ...)
  call('SET', s_call, table.concat({...}, ' '), 'PX', '300000')
end

-- mark_stopping(s, more) writes into the run record whether s.stopped still has messages, which the
-- next claim archives. Scripts that do not get that key read it there.
local function mark_stopping(s_run, more)
  if more then
    call('HSET', s_run, 'stopping', '1', 'special', '1')
  elseif call('HGET', s_run, 'stopping') == '1' then
    call('HSET', s_run, 'stopping', '')
  end
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
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

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
end

-- stopped_batch(s, list, limits) returns the oldest messages of a list, {id, msg, unique,
-- route} each, and whether there are more. limits is "messages bytes": how many messages at most, and how many bytes
-- of text. The first message may exceed that. A tombstone replaces a msg that is too long.
local function stopped_batch(s_deliveries, s_longest, s_outbox, s_owed, s_task, list, limits)
  local most, bytes = string.match(limits, '^(%d+) (%d+)$')
  local batch, size = {}, 0
  local ids = call('LRANGE', list, '-' .. most, -1)
  for i = #ids, 1, -1 do
    size = size + call('HSTRLEN', s_task .. ids[i], 'msg')
    if #batch > 0 and size > tonumber(bytes) then break end
    local msg, unique = load_short(s_longest, s_task, ids[i])
    batch[#batch + 1] = {id = ids[i], msg = msg, unique = unique, route = route_of(s_deliveries, s_outbox, s_owed, s_task, ids[i])}
  end
  return batch, call('LLEN', list) > #batch
end

local batch_limits, number, deadline = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])

local now = now_ms()

-- A claim or another stop may archive some of these as well. So they are counted when they are
-- moved to the list. Ids without a task are subtracted when they are found.
local of, phase, fence, meant, rest, wake = string.match(call('GET', s_call) or '', '^(%d+) (%S+) (%d+) (%d+) (%d) (%d)$')
if of and tonumber(of) >= number then
  return {phase, tonumber(fence), tonumber(meant), tonumber(rest), tonumber(wake)}
end
local first = not of and number == 1
if first and now > deadline then return {'late'} end

local before = first and call('EXISTS', s_stopped) == 1
local requests = first and not before
local v = call('HMGET', s_run, 'token', 'worker', 'fence', 'phase', 'stop')
local run_token, run_worker, run_fence, run_phase, run_stop = v[1], v[2], v[3], v[4], v[5]
local owner = call('GET', s_sentinel)
if requests then -- also of a dead owner: the next claim reads it
  phase, fence, meant = run_phase or 'idle', run_fence or '0', call('LLEN', s_pending)
end
local batch, more = stopped_batch(s_deliveries, s_longest, s_outbox, s_owed, s_task, requests and s_pending or s_stopped, batch_limits)
if not requests and not of then -- the stored result has expired
  phase, fence, meant = 'idle', '0', #batch
end
call('ZCARD', s_archived)
call('HLEN', s_followups)
call('HLEN', s_record)

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s_followups, '')
if requests and #batch > 0 then call('RENAMENX', s_pending, s_stopped) end
if requests then forget_notes(s_record) end
local n = archive_stopped(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_stopped, s_task, batch, now)
if #batch > 0 then call('HSET', s_run, 'unsaid', (fence ~= '0' and fence or run_fence or '0') .. ' ' .. batch[#batch].id) end
mark_stopping(s_run, more)
if before then return {'earlier'} end
if requests and phase ~= 'idle' and run_stop ~= fence then
  call('HSET', s_run, 'stop', fence)
  if owner then call('PUBLISH', 'turnstile:signal:' .. run_worker, '{"kind":"stop","token":"' .. owner .. '","fence":' .. fence .. '}') end
end
n = math.max(tonumber(meant) - #batch + n, 0)
rest, wake = more and 1 or 0, phase ~= 'idle' and not owner and 1 or 0
if n > 0 or rest > 0 or phase ~= 'idle' then
  keep_result(s_call, number, phase, fence, n, rest, wake)
  if requests then audit(s_audit, s_by, 'stop', phase ~= 'idle' and s_prefix .. fence or '', now) end
end
return {phase, tonumber(fence), n, rest, wake}

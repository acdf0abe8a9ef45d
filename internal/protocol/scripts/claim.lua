-- Code generated from ../lua/claim.lua by go generate; DO NOT EDIT.
--
-- claim: takes the sentinel, and with it the next message, or several that are collected into one
-- turn.
--
-- The fast path is for the common case: only ordinary messages wait, and the last owner has
-- released the session. It claims many sessions in one call. If the head of the queue is not an
-- ordinary message, it moves the head back. It skips tasks that a stock asynq.Server is to retry:
-- they wait for the end of the turn.
--
-- KEYS sentinel run record followups resume events journal pending active lease paused scheduled retry
-- KEYS processed processed_day archived failed failed_day stopped owed outbox deliveries state
-- ARGS
--   ttl int          the sentinel's, ms
--   worker
--   phase            of the new turn
--   mode             this worker's busy mode
--   cap int          its cap of follow-ups
--   drop             its drop policy
--   debounce int     its quiet window, ms
--   warm bit         it keeps agents warm
--   s.longest number  how many bytes a task's msg may have
-- ARGS
--   stuck_limit number     interruptions in a row that suspend
--   s.events_cap int       see append_event
--   s.short number         bytes
--   s.large_bytes int
--   crash_suspends flag
--   stop_batch             "messages bytes" of a /stop that a claim archives
--   turn_limits            "messages bytes" that a turn has at most, unless the first alone has more
--   serves                 the names of the agents that this worker runs, each between blanks
--   elsewhere              those that other living workers run, likewise; '': unknown
-- EACH
--   s.task           prefix of the session's task hashes
--   s.token          new for every claim
--   fresh_sid        a fresh transcript id
--   agent            for a session that has none yet, by its key
-- EACH
--   s.prefix         of turn ids
-- RETURNS
--   'turn' now:int fence:int sid entries:int dropped messages:message reset resume agent carries began:int keeps:int ends throttled
--     entries: written so far; dropped: 'omitted omitted_told ids' or ''; resume: the reason of
--     the resume mark; carries: what the turn's journal has, 'steps' or
--     'entries'; began: the fence of the first run that this one goes on from, 0: none; keeps: how many items of its
--     output stand; ends: 'stop', 'interrupt' or 'rollback' if the turn was claimed only to be ended like that, or why it
--     is given up: no agent runs; throttled: how often its runs have waited for a provider.
--     The fast path leaves out the last eight: its turn's agent is the argument
--   'other' now:int agent missing:int   this worker does not run the session's agent. missing: 1 if
--     no living worker runs it. Then the session's record says so; else nothing is written
--   'held' left:int          ms
--   'paused'
--   'wait' at:int            ms
--   'empty'
--   'again' dead:int     claim again: this call has archived a batch of the messages that a /stop
--     found waiting, or of messages at the head of the queue that are too long to be read, or it
--     has removed ids without a task from the queue or from active, or has moved messages from active to the queue, or
--     it has ended a turn whose worker died when it was to write that end. dead: now, ms, if there are new dead letters, else 0
--   'special'            the fast path has done nothing
--   message: id msg age:ms redelivered:int unique:flag steer:flag
--     age: ms; the last three may be left out: 0
--
-- A repetition under the same token returns the same result. The full path begins with SET, unless
-- it returns 'again': in a full Redis no new turn starts.

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_followups, s_resume, s_events, s_journal, s_pending, s_active, s_lease, s_paused, s_scheduled, s_retry, s_processed, s_processed_day, s_archived, s_failed, s_failed_day, s_stopped, s_owed, s_outbox, s_deliveries, s_state, s_longest, s_events_cap, s_short, s_large_bytes, s_task, s_token, s_prefix = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23], tonumber(ARGV[9]), ARGV[11], tonumber(ARGV[12]), ARGV[13], ARGV[19], ARGV[20], ARGV[23]
local function fields_1(key)
  local v = call('HMGET', key, 'seq', 'first')
  return {seq = v[1], first = v[2]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'seq', 'state')
  return {seq = v[1], state = v[2]}
end
local function fields_3(key)
  local v = call('HMGET', key, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route', 'steer')
  return {msg = v[1], seen = v[2], redelivered = v[3], quiet = v[4], unique_key = v[5], route = v[6], steer = v[7]}
end
local function fields_4(key)
  local v = call('HMGET', key, 'token', 'fence', 'phase', 'ids', 'stop', 'interrupt', 'sid', 'entries', 'hold', 'reset', 'resume', 'done', 'rotated', 'rollback', 'seq', 'special', 'survived', 'doubted', 'other_agent', 'ending', 'steer', 'throttled')
  return {token = v[1], fence = v[2], phase = v[3], ids = v[4], stop = v[5], interrupt = v[6], sid = v[7], entries = v[8], hold = v[9], reset = v[10], resume = v[11], done = v[12], rotated = v[13], rollback = v[14], seq = v[15], special = v[16], survived = v[17], doubted = v[18], other_agent = v[19], ending = v[20], steer = v[21], throttled = v[22]}
end
local function fields_5(key)
  local v = call('HMGET', key, 'fence', 'origin', 'closed', 'progress')
  return {fence = v[1], origin = v[2], closed = v[3], progress = v[4]}
end

-- DEFAULT_AGENT is the agent of sessions that have no other one: internal/protocol/agents.
local DEFAULT_AGENT = 'default'

-- LEASE_LOST is the reason if the turn's owner lost its lease and lives.
local LEASE_LOST = 'lease_lost'

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
local WHY_STOPPED = 'stopped by user'

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

-- tombstone(s, id, bytes) returns the TaskMessage that replaces one that is too long to be read. 1
-- type, 2 payload, 3 id, 4 queue; Limits.DecodePayload reads too_long.
local function tombstone(s_task, id, bytes)
  local payload, queue = '{"v":1,"text":"","too_long":' .. string.format('%d', bytes) .. '}', string.match(s_task, '{(.*)}')
  return '\10' .. varint(17) .. 'turnstile:message' .. '\18' .. varint(#payload) .. payload ..
    '\26' .. varint(#id) .. id .. '\34' .. varint(#queue) .. queue
end

-- archive_too_long(s, t, now) archives t, {id, bytes, unique, route}, which has left the queue. Its
-- msg is too long to be read.
local function archive_too_long(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_longest, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_task, t, now)
  local own = own_id(s_prefix, t.id)
  local why = 'invalid message: its task has ' .. string.format('%d', t.bytes) .. ' bytes, at most ' .. string.format('%d', s_longest) .. ' are allowed; its content was not kept'
  local outcome = '{"type":"turn_ended","status":"failed","messages":[' .. quote(own) .. '],"error":"' .. why .. '","code":"invalid_message"}'
  archive(s_archived, s_task, t.id, tombstone(s_task, t.id, t.bytes), t.unique, why, outcome, now)
  call('HSET', s_run, 'unsaid', (call('HGET', s_run, 'fence') or '0') .. ' ' .. t.id)
  keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, {t}, outcome, now)
  count_archived(s_failed, s_failed_day, s_processed, s_processed_day, 1)
  pcall('HDEL', s_followups, own)
  append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, outcome)
end

-- begun(run) returns whether a turn has begun and not ended. Without a sentinel it is parked, or its owner died.
local function begun(run) return run.fence and (run.phase == 'starting' or run.phase == 'running' or run.phase == 'parked') end

-- belongs(s, journal, first) returns whether the journal, its fields, is of a turn with this first task.
-- A task that is enqueued again under the same id has no origin.
local function belongs(s_task, journal, first)
  return journal.origin and journal.origin == call('HGET', s_task .. first, 'origin')
end

-- carries_on(s, fence) returns what the turn with this fence carries on from earlier runs, for claim's
-- result, the fence of the first run that it goes on from, and how many items of its output stand.
local function carries_on(s_journal, fence)
  local v = call('HMGET', s_journal, 'fence', 'closed', 'began', 'keeps')
  local j_fence, j_closed, j_began, j_keeps = v[1], v[2], v[3], v[4]
  if j_fence ~= tostring(fence) then return '', 0, 0 end
  return j_closed and 'steps' or 'entries', tonumber(j_began) or 0, tonumber(j_keeps) or 0
end

-- check_outbox(s) fails on a key of a wrong type, before a script's first write.
local function check_outbox(s_deliveries, s_outbox, s_owed)
  call('HLEN', s_owed)
  call('ZCARD', s_outbox)
  call('HLEN', s_deliveries)
end

-- check_routes(s, group) fails on a key of a wrong type, before promise_all.
local function check_routes(s_deliveries, s_outbox, s_owed, group)
  for _, t in ipairs(group) do
    if t and t.route then check_outbox(s_deliveries, s_outbox, s_owed) end
  end
end

-- forget_record(s, sequence) deletes the text of a record and the facts about it: 'id sequence' is
-- its first sequence, 'why sequence' why it was given up, 'unsure sequence' that it may have been
-- delivered before it was redriven, 'refused sequence' how often its receiver refused it, and 'by
-- sequence' its deadline, if its messages have one.
local function forget_record(s_deliveries, sequence)
  call('HDEL', s_deliveries, sequence, 'id ' .. sequence, 'why ' .. sequence, 'unsure ' .. sequence, 'refused ' .. sequence, 'by ' .. sequence)
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

-- close_question(s, now, decision) notifies the routes of the open question that it is closed, with
-- further fields of its decision if there is one. If no
-- deliverer can have tried to deliver the question yet, it is removed instead. A deliverer that has
-- leased the queue may have it, also after the head.
local function close_question(s_deliveries, s_outbox, s_prefix, s_task, now, decision)
  local open = pcall('HGET', s_deliveries, 'question')
  if type(open) ~= 'string' or type(pcall('ZCARD', s_outbox)) ~= 'number' then return end
  call('HDEL', s_deliveries, 'question')
  for entry in string.gmatch(open, '[^\n]+') do
    local to, sequence, number, ids, route = string.match(entry, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
    local member, named = to .. ' ' .. sequence, {}
    local tried = load_line(s_deliveries, to).till > now
      or call('HEXISTS', s_deliveries, 'line ' .. to) == 1 and line_records(s_outbox, to, 1)[1] == member
    if not tried and call('ZREM', s_outbox, member) == 1 then
      forget_record(s_deliveries, sequence)
      count_for(s_deliveries, to, -1)
    else
      for id in string.gmatch(ids, '[^,]+') do named[#named + 1] = id end
      add_record(s_deliveries, s_outbox, s_prefix, s_task, route, 'question.closed', named, ',"number":' .. number .. (decision or ''), now)
    end
  end
end

-- count_processed(s, n) and count_archived(s, n) add n ended messages to asynq's statistics.
local function count_processed(s_processed, s_processed_day, n) add(s_processed, s_processed_day, n) end

-- dead_event(s, run, ids, ended) returns the start of a dead owner's run, or its end: ended has the further fields.
local function dead_event(s_journal, s_prefix, run, ids, ended)
  local _, began, keeps = carries_on(s_journal, run.fence)
  local continues = ''
  if began > 0 and began ~= tonumber(run.fence) then
    continues = ',"continues":"' .. s_prefix .. string.format('%d', began) .. '"' .. (ended and '' or ',"keeps":' .. string.format('%d', keeps))
  end
  return '{"type":"' .. (ended and 'turn_ended' or 'turn_started') .. '","session_id":"' .. (run.sid or '') .. '","turn":"' .. s_prefix .. run.fence ..
    '","fence":' .. run.fence .. ',"messages":' .. list_of(s_prefix, ids) .. continues .. (ended or '') .. '}'
end

-- IN_DOUBT is the sentinel's value while a dead owner has time to report that it lives.
local IN_DOUBT = 'in doubt'

-- doubts(s, run, ttl) returns whether the dead owner has one more TTL to report that it lives, before a step that cannot
-- be taken back.
local function doubts(s_run, s_sentinel, run, ttl)
  if run.doubted == run.fence then return false end
  if call('SET', s_sentinel, IN_DOUBT, 'NX', 'PX', ttl) then call('HSET', s_run, 'doubted', run.fence) end
  return true
end

-- due_tasks(s, now) returns due delayed tasks, by time and then by order of enqueueing: {id, score,
-- seq, zset, state}. state is false if the task is gone.
local function due_tasks(s_retry, s_scheduled, s_task, now)
  local due = {}
  for _, zset in ipairs({s_scheduled, s_retry}) do
    local z = call('ZRANGEBYSCORE', zset, '-inf', string.format('%d', (math.floor(now / 1000))), 'WITHSCORES', 'LIMIT', 0, 1000)
    for i = 1, #z, 2 do
      local v = call('HMGET', s_task .. z[i], 'seq', 'state')
      local t_seq, t_state = v[1], v[2]
      due[#due + 1] = {id = z[i], score = tonumber(z[i + 1]), seq = tonumber(t_seq) or 0, zset = zset, state = t_state}
    end
  end
  table.sort(due, function(a, b)
    if a.score ~= b.score then return a.score < b.score end
    if a.seq ~= b.seq then return a.seq < b.seq end
    return a.id < b.id
  end)
  return due
end

-- held_lock(id, unique) returns the task's unique key if the task still holds that lock, or false.
local function held_lock(id, unique)
  return unique and unique ~= '' and call('GET', unique) == id and unique
end

-- NEAR is how many ids at either end of a long queue are searched.
local NEAR = 500

-- places(s, ids) returns the places of these messages, by the order of arrival. Its head is the id
-- at the head of the queue once they are back, if there is one. A message with a place in the
-- middle of a long queue goes further ahead, after the NEAR ids at the head.
local function places(s_followups, s_pending, s_prefix, s_task, ids)
  local oldest = call('LRANGE', s_pending, -NEAR, -1) -- newest first
  local others = math.min(call('LLEN', s_pending) - #oldest, NEAR)
  local newest = others > 0 and call('LRANGE', s_pending, 0, others - 1) or {}
  local tasks, ahead = {}, {} -- by id

  -- later(id, seq) returns whether a message arrived later and does not go to the head of the
  -- queue.
  local function later(id, seq)
    local t = tasks[id] or fields_1(s_task .. id)
    tasks[id] = t
    if (tonumber(t.seq) or 0) <= seq then return false end
    if ahead[id] == nil then ahead[id] = (t.first and call('HEXISTS', s_followups, (own_id(s_prefix, id))) == 1) or false end
    return not ahead[id]
  end

  -- Each has its id, and before: how many of the oldest ids precede it, or behind: how many of the
  -- newest follow it.
  local back = {oldest = oldest, newest = newest}
  local before, last_seq = 0, 0 -- ids are usually in the order of arrival
  for _, id in ipairs(ids) do
    local t = fields_2(s_task .. id)
    local seq, behind = tonumber(t.seq) or 0, false
    if seq < last_seq then before = 0 end
    last_seq = seq
    while before < #oldest and not later(oldest[#oldest - before], seq) do before = before + 1 end
    if before == #oldest and #newest > 0 then
      behind = 0
      while behind < #newest and later(newest[behind + 1], seq) do behind = behind + 1 end
      if behind == #newest then behind = false end
    end
    back[#back + 1] = {id = id, before = not behind and before, behind = behind}
    -- A message that asynq or an operator has taken out of the turn does not come back.
    if before == 0 and not back.head and t.state == 'active' then back.head = id end
  end
  back.head = back.head or oldest[#oldest]
  return back
end

-- return_untaken(s, back) moves the messages from the turn to their places. If several have the
-- same place, the first one is nearest to the head.
local function return_untaken(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, back)
  local ahead, behind, nahead, nbehind = {}, {}, 0, 0
  for i = #back, 1, -1 do -- newest first, as they stand in active
    local id, b = back[i].id, back[i]
    if call('LREM', s_active, '1', id) == 1 and call('EXISTS', s_task .. id) == 1 then
      call('HSET', s_task .. id, 'state', 'pending')
      local there = b.before and ahead or behind
      local n = b.before or b.behind
      there[n] = there[n] or {}
      table.insert(there[n], id)
      if b.before then nahead = math.max(nahead, n) else nbehind = math.max(nbehind, n) end
    end
    pcall('ZREM', s_lease, id)
    pcall('HDEL', s_followups, own_id(s_prefix, id))
  end
  local line = {} -- from the middle to the head
  for n = nahead, 0, -1 do
    for _, id in ipairs(ahead[n] or {}) do line[#line + 1] = id end
    if n > 0 then line[#line + 1] = back.oldest[#back.oldest - n + 1] end
  end
  if next(ahead) then
    call('LTRIM', s_pending, 0, -1 - nahead)
    call('RPUSH', s_pending, unpack(line))
  end
  line = {} -- from the middle to the end
  for n = nbehind, 0, -1 do
    local there = behind[n] or {} -- newest first
    for i = #there, 1, -1 do line[#line + 1] = there[i] end
    if n > 0 then line[#line + 1] = back.newest[n] end
  end
  if next(behind) then
    call('LTRIM', s_pending, nbehind, -1)
    call('LPUSH', s_pending, unpack(line))
  end
end

-- set_idle(s, warm, ...) writes the run record of a session that finish releases. Most sessions are
-- idle, so it deletes fields that only a turn needs. The name of a worker that keeps agents warm
-- stays: senders notify it of the next message first. The last arguments are further fields.
local function set_idle(s_run, warm, ...)
  call('HSET', s_run, 'phase', 'idle', ...)
  if warm == '1' then
    call('HDEL', s_run, 'token', 'started_at', 'done')
  else
    call('HDEL', s_run, 'token', 'started_at', 'done', 'worker')
  end
end

-- end_unwritten(s, run, group, how, now, shown) ends a turn whose worker died when it was to write this end. What killed
-- it may be in the log: nobody reads that again, and the messages become dead letters. Steers go back to the queue if no
-- agent has made anything of them, as in any end but a stop's.
local function end_unwritten(s_active, s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_journal, s_large_bytes, s_lease, s_outbox, s_owed, s_pending, s_prefix, s_processed, s_processed_day, s_resume, s_run, s_short, s_state, s_task, run, group, how, now, shown)
  local status, why, code = 'failed', how, ',"code":"worker_died"'
  if how == 'stop' then
    status, why, code = 'stopped', WHY_STOPPED, ''
  elseif how == 'interrupt' or how == 'rollback' then
    status, why, code = 'interrupted', (how == 'interrupt' and 'interrupted' or 'rolled back') .. ' by a newer message', ''
  end
  local function outcome(ids)
    return dead_event(s_journal, s_prefix, run, ids, ',"status":"' .. status .. '","error":' .. quote(why) .. code)
  end
  local ids, steers = {}, {}
  if how ~= 'stop' and call('EXISTS', s_journal) == 0 then
    while #group > 1 and group[#group].steer do table.insert(steers, 1, table.remove(group).id) end
  end
  local back = #steers > 0 and places(s_followups, s_pending, s_prefix, s_task, steers)
  for i, t in ipairs(group) do
    ids[i], t.unique = t.id, held_lock(t.id, t.unique_key)
  end
  local all = outcome(ids)
  call('ZCARD', s_archived)
  check_routes(s_deliveries, s_outbox, s_owed, group)

  call('DEL', s_lease) -- the first write frees memory
  if not shown then append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, dead_event(s_journal, s_prefix, run, cjson.decode(run.ids))) end
  for _, t in ipairs(group) do
    call('LREM', s_active, -1, t.id)
    archive(s_archived, s_task, t.id, t.msg, t.unique, why, outcome{t.id}, now)
    pcall('HDEL', s_followups, own_id(s_prefix, t.id))
  end
  if (run.rotated or '') ~= '' then -- the mark is the old transcript's
    call('HDEL', s_resume, 'pending', 'reason', 'marked_at', 'suspended')
  else
    call('HSET', s_run, 'unsaid', run.fence .. ' ' .. ids[#ids])
  end
  if back then return_untaken(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, back) end
  call('DEL', s_journal)
  if how == 'rollback' then call('DEL', s_state) end -- it may have what was rolled back
  close_question(s_deliveries, s_outbox, s_prefix, s_task, now)
  set_idle(s_run, '0', 'ended_at', string.format('%d', now))
  keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, group, all, now)
  count_archived(s_failed, s_failed_day, s_processed, s_processed_day, #ids)
  append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, all)
end

-- of_turn(run, value) returns what stands after the fence in the value of one of run's fields, or '' if it is another
-- turn's.
local function of_turn(run, value)
  local of, what = string.match(value or '', '^(%d+) (.*)$')
  return of == run.fence and what or ''
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

-- ends_as(run) returns how the turn that has not ended is to end, or '', and whether it was begun only for that.
local function ends_as(run)
  if not begun(run) then return '', false end
  local how = of_turn(run, run.ending)
  if how ~= '' then return how, true end
  return requested(run, run.fence), false
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

-- forward(s, due, now) moves due tasks to the end of the queue.
local function forward(s_pending, s_task, due, now)
  for _, t in ipairs(due) do
    call('ZREM', t.zset, t.id)
    if t.state then
      call('LPUSH', s_pending, t.id)
      call('HSET', s_task .. t.id, 'state', 'pending', 'pending_since', string.format('%d', now) .. '000000')
    end
  end
end

-- too_long(s, id) returns how many bytes a task's msg has, if these are more than s.longest, or
-- false. Such a msg is not read: it may have tens of megabytes.
local function too_long(s_longest, s_task, id)
  local bytes = call('HSTRLEN', s_task .. id, 'msg')
  return bytes > s_longest and bytes
end

-- load_task(s, id) returns a task with the fields that a claim needs. msg is false if the task is
-- gone. If the msg is too long, msg is '' and too_long is its size in bytes.
local function load_task(s_longest, s_task, id)
  local bytes = too_long(s_longest, s_task, id)
  if bytes then return {id = id, msg = '', too_long = bytes} end
  local t = fields_3(s_task .. id)
  t.id = id
  return t
end

-- gather(s, first, gone, now, limits) returns the messages of one turn, and until when (ms) they
-- wait for more, or false. The turn takes first, the head of the queue. If first is to be
-- collected, it also takes the collected messages directly after it, up to limits: "messages
-- bytes". A task's quiet is "ms cap": the end of its quiet window, and the number of messages that
-- ends the wait.
local function gather(s_longest, s_pending, s_task, first, gone, now, limits)
  if not first.quiet then return {first}, false end
  local till, cap = string.match(first.quiet, '^(%d+) (%d+)$')
  local most, room = string.match(limits, '^(%d+) (%d+)$')
  till, cap = tonumber(till) or 0, math.min(tonumber(cap) or 1, tonumber(most))
  local group, behind = {first}, call('LRANGE', s_pending, -cap - gone, -2 - gone) -- newest first
  room = tonumber(room) - #first.msg
  for i = #behind, 1, -1 do
    local t = load_task(s_longest, s_task, behind[i])
    if not t.msg or not t.quiet then break end
    room = room - #t.msg
    if room < 0 then break end
    group[#group + 1] = t
    till = math.max(till, tonumber(string.match(t.quiet, '^%d+')) or 0)
  end
  if #group >= cap or room < 0 or till <= now then till = false end
  return group, till
end

-- head(s, due) returns the task at the head of the queue once due is forwarded, and how many ids
-- without a task precede it. The task is false if the queue is empty, or if there are so many ids
-- without a task that the next call continues.
local function head(s_longest, s_pending, s_task, due)
  local gone, most, behind = 0, 500, {}
  while gone < most do
    if gone == 1 then behind = call('LRANGE', s_pending, -most, -2) end -- newest first
    local id
    if gone == 0 then id = call('LINDEX', s_pending, '-1') else id = behind[#behind + 1 - gone] end
    if not id then
      for _, t in ipairs(due) do
        if t.state then return load_task(s_longest, s_task, t.id), gone end
      end
      return false, gone
    end
    local t = load_task(s_longest, s_task, id)
    if t.msg then return t, gone end
    gone = gone + 1
  end
  return false, gone
end

-- RUNS_MOST times stuck_limit interruptions suspend a session, whatever its runs have done. Of a deploy's drains only the
-- first is one of them.
local RUNS_MOST = 10

-- interrupt(mark, fence, reason, now, stuck_limit, progressed, started) marks the interruption of the turn
-- with this fence, and counts it: stuck_limit counted ones in a row suspend the session; false: the lease was lost,
-- which is never counted. Returns whether the mark has changed. A turn is counted once, and a suspended session keeps
-- its record. A run that has
-- progressed is not counted, nor is a drain by a worker that started, at this ms, before the last drain that was: a
-- deploy hands a turn on to such workers, a restart loop to newer ones. A death has no such time.
local function interrupt(mark, fence, reason, now, stuck_limit, progressed, started)
  if mark.suspended or mark.fence == fence then return false end
  mark.pending, mark.reason, mark.marked_at, mark.fence = true, reason, now, fence
  if not stuck_limit then return true end
  local drained_at = mark.drained_at
  if started and drained_at and started < drained_at and drained_at <= now then return true end
  mark.runs = mark.runs + 1
  local counts = not progressed
  if counts then mark.interruptions, mark.drained_at = mark.interruptions + 1, started and now or drained_at end
  mark.suspended = counts and mark.interruptions >= stuck_limit or mark.runs >= RUNS_MOST * stuck_limit
  return true
end

-- leased(s, id, now) returns until when (ms) a stock asynq.Server works on an active task, or
-- false. asynq's dequeue deletes pending_since, and a claim keeps it. A dead letter that asynqmon's Run
-- put into the queue does not have it, but a claim's lease on such a task ends with the sentinel,
-- unless the sentinel is deleted by hand.
local function leased(s_lease, s_task, id, now)
  local score = call('ZSCORE', s_lease, id)
  score = score and tonumber(score) * 1000
  if not score or score <= now or call('HEXISTS', s_task .. id, 'pending_since') == 1 then return false end
  return math.min(score, now + 1000)
end

-- load_mark(s) returns the session's resume record.
local function load_mark(s_resume)
  local v = call('HMGET', s_resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'crashes', 'runs', 'drained_at')
  local m_pending, m_reason, m_marked_at, m_interruptions, m_fence, m_suspended, m_crashes, m_runs, m_drained_at = v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]
  return {pending = m_pending == '1', reason = m_reason or '', marked_at = tonumber(m_marked_at), interruptions = tonumber(m_interruptions) or 0,
    fence = m_fence, suspended = m_suspended == '1', crashes = m_crashes,
    runs = tonumber(m_runs) or 0, drained_at = tonumber(m_drained_at)}
end

-- lock_of(s, id) returns the unique lock that a task holds, or false. It does not read the msg.
local function lock_of(s_task, id) return held_lock(id, call('HGET', s_task .. id, 'unique_key')) end

-- mark_stopping(s, more) writes into the run record whether s.stopped still has messages, which the
-- next claim archives. Scripts that do not get that key read it there.
local function mark_stopping(s_run, more)
  if more then
    call('HSET', s_run, 'stopping', '1', 'special', '1')
  elseif call('HGET', s_run, 'stopping') == '1' then
    call('HSET', s_run, 'stopping', '')
  end
end

-- message_record(now, id, msg, seen, redelivered, unique_key, steer) returns the record of a message for
-- the worker that takes it.
local function message_record(now, id, msg, seen, redelivered, unique_key, steer)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key or steer then
    return {id, msg, age, tonumber(redelivered) or 0, unique_key and 1 or 0, steer and 1 or 0}
  end
  return {id, msg, age}
end

-- message_records(s, ids, now) returns the records of messages that were taken before.
local function message_records(s_longest, s_task, ids, now)
  local list = {}
  for i, id in ipairs(ids) do
    local t = load_task(s_longest, s_task, id)
    list[i] = message_record(now, id, t.msg, t.seen, t.redelivered, t.unique_key, t.steer)
  end
  return list
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

-- notes_record(s, dropped) returns the notes for a worker: 'omitted omitted_told ids', or ''.
local function notes_record(s_record, dropped)
  if not dropped or dropped == '' then return '' end
  local v = call('HMGET', s_record, 'omitted', 'omitted_told')
  local n_omitted, n_omitted_told = v[1], v[2]
  return string.format('%d', ((tonumber(n_omitted) or 0))) .. ' ' .. string.format('%d', ((tonumber(n_omitted_told) or 0))) .. ' ' .. dropped
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- parked_until(run) returns until when (ms) a parked turn waits, 0 if its end was requested, or false if
-- none is parked. A parked turn has no owner: its messages stay in active.
local function parked_until(run)
  if run.phase ~= 'parked' then return false end
  if requested(run, run.fence) ~= '' then return 0 end
  return tonumber(run.hold) or 0
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

-- promise_all(s, group) promises the outcomes of a turn's messages, {id, route} each, and returns
-- whether one has a route. A message without a promise has ended before: Run in asynqmon has put
-- the dead letter back. It repeats itself.
local function promise_all(s_deliveries, s_owed, s_prefix, s_task, group)
  local routed = false
  for _, t in ipairs(group) do
    if t.route then
      call('HDEL', s_task .. t.id, 'result') -- of an earlier run: it is not how this one ends
      if promise(s_deliveries, s_owed, s_prefix, t.id, t.route) then
        local again = string.gsub(t.route, '^(%S+) %S+', '%1 ' .. own_id(s_prefix, t.id), 1)
        call('HSET', s_task .. t.id, 'route', again)
        call('HSET', s_owed, own_id(s_prefix, t.id), again)
      end
      routed = true
    end
  end
  return routed
end

-- requeue_message(s, id, ...) moves a message from active to the head of the queue, as a separate turn. Call it
-- for the newest message first. The last arguments are further fields of its task.
local function requeue_message(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, id, ...)
  pcall('ZREM', s_lease, id)
  call('LREM', s_active, 1, id)
  call('RPUSH', s_pending, id)
  call('HSET', s_task .. id, 'state', 'pending', ...)
  call('HDEL', s_task .. id, 'quiet', 'first')
  pcall('HDEL', s_followups, own_id(s_prefix, id)) -- that of a message that was steered in
end

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
end

-- load_msg(s, id) returns the task's msg, false if the task is gone, and its unique lock, or false.
local function load_msg(s_task, id)
  local v = call('HMGET', s_task .. id, 'msg', 'unique_key')
  local t_msg, t_unique_key = v[1], v[2]
  return t_msg, held_lock(id, t_unique_key)
end

-- load_short(s, id) is load_msg, with a tombstone in place of a msg that is too long.
local function load_short(s_longest, s_task, id)
  local bytes = too_long(s_longest, s_task, id)
  if bytes then return tombstone(s_task, id, bytes), lock_of(s_task, id) end
  return load_msg(s_task, id)
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

-- store_interruption(s, mark) writes interrupt's changes.
local function store_interruption(s_resume, s_run, mark)
  call('HSET', s_resume, 'pending', '1', 'reason', mark.reason, 'marked_at', string.format('%d', mark.marked_at),
    'fence', mark.fence, 'interruptions', mark.interruptions, 'runs', mark.runs)
  if mark.drained_at then call('HSET', s_resume, 'drained_at', string.format('%d', mark.drained_at)) end
  if mark.suspended then call('HSET', s_resume, 'suspended', '1') end
  call('HSET', s_run, 'special', '1')
end

-- activate(s, id, seen, at) writes that a task is in active. seen is its field, or false: then it
-- becomes at.
local function activate(s_task, id, seen, at)
  if seen then
    call('HSET', s_task .. id, 'state', 'active')
  else
    call('HSET', s_task .. id, 'state', 'active', 'seen', at)
  end
end

-- take(s, group, now, there) moves the group from the queue to active, unless it is there. Returns its ids, as JSON,
-- and the record of each for the worker.
local function take(s_active, s_pending, s_task, group, now, there)
  local messages, ids = {}, ''
  for i, t in ipairs(group) do
    if not there then call('RPOPLPUSH', s_pending, s_active) end
    activate(s_task, t.id, t.seen, string.format('%d', now))
    messages[i] = message_record(now, t.id, t.msg, t.seen, t.redelivered, t.unique_key, t.steer)
    ids = ids .. (i > 1 and ',' or '') .. quote(t.id)
  end
  return '[' .. ids .. ']', messages
end

local ttl, worker, phase, mode, cap, drop, debounce, warm, stuck_limit, crash_suspends, stop_batch, turn_limits, serves, elsewhere, fresh_sid, agent = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[10]), ARGV[14] == '1', ARGV[15], ARGV[16], ARGV[17], ARGV[18], ARGV[21], ARGV[22]
local now = now_ms()

-- begin(s, first, last, sid, ids, entries, known) writes the beginning of the turn into the run
-- record and the session's record, and returns its fence. first: there is no run record yet; last:
-- the last fence; known: the session has a record. The records of a session's first turn are short:
-- a missing field has its default.
local function begin(s_record, s_run, s_token, first, last, sid, ids, entries, known)
  local fence, at = string.format('%d', (math.max((tonumber(last or 0) or 0) + 1, now))), string.format('%d', now)
  if first and drop == 'new' and warm == '0' then
    call('HSET', s_run, 'fence', fence, 'ids', ids, 'started_at', at, 'entries', '0', 'done', '0', 'token', s_token, 'phase', phase, 'sid', sid, 'worker', worker, 'mode', mode, 'cap', cap, 'debounce', debounce)
  else
    call('HSET', s_run, 'fence', fence, 'ids', ids, 'started_at', at, 'entries', string.format('%d', entries), 'done', '0', 'token', s_token, 'phase', phase, 'sid', sid, 'worker', worker, 'mode', mode, 'cap', cap, 'drop', drop, 'debounce', debounce, 'warm', warm)
  end
  if known then
    call('HSET', s_record, 'session_id', sid, 'fence', fence, 'updated_at', at)
  else
    call('HSET', s_record, 'v', '1', 'session_id', sid, 'fence', fence, 'created_at', at)
  end
  return tonumber(fence)
end
local run = fields_4(s_run)
local v = call('HMGET', s_record, 'session_id', 'fence', 'created_at', 'dropped', 'agent')
local record_session_id, record_fence, record_created_at, record_dropped, record_agent = v[1], v[2], v[3], v[4], v[5]
local sid, entries = record_session_id, tonumber(run.entries) or 0
local turn = begun(run) -- it has not ended, and the messages in active are its
run.throttled = turn and of_turn(run, run.throttled) or ''

-- A session keeps its agent: one that has had a turn without a name has DEFAULT_AGENT. A turn keeps the one that
-- it began with.
local other = turn and of_turn(run, run.other_agent) or ''
local bound = other ~= '' and other or record_agent or record_fence and DEFAULT_AGENT or agent

-- A turn is begun to write its end. If its worker dies then, the next claim writes it.
local ends, ending = ends_as(run)

-- 1. The present owner keeps the session. A repeated claim returns the same result.
local owner = call('GET', s_sentinel)
if owner == s_token and run.token == s_token then
  local carries, began, keeps = carries_on(s_journal, run.fence)
  local ids = cjson.decode(run.ids)
  return {'turn', now, tonumber(run.fence), run.sid, entries, notes_record(s_record, record_dropped), message_records(s_longest, s_task, ids, now), of_turn(run, run.reset), of_turn(run, run.resume), bound, carries, began, keeps, ends, run.throttled}
end
if owner then return {'held', call('PTTL', s_sentinel)} end

-- 2. Who may claim it, and when. Any worker may end a turn, also of a paused queue: no agent runs.
if ends == '' then
  local name = ' ' .. bound .. ' '
  if not string.find(serves, name, 1, true) and call('EXISTS', s_pending, s_active, s_scheduled, s_retry) > 0 then
    local missing = elsewhere ~= '' and not string.find(elsewhere, name, 1, true)
    if missing then call('HSET', s_record, 'needs', bound .. ' ' .. string.format('%d', now)) end
    return {'other', now, bound, missing and 1 or 0}
  end
  local till = parked_until(run)
  if till and till > now and call('EXISTS', s_active) == 1 then return {'wait', till} end
end

-- 3. Most sessions are ordinary: they have none of these keys. In the others, in_active has the
-- newest first, and due are due delayed tasks. A dead sender's /stop is finished first.
local ordinary = not turn and call('EXISTS', s_paused, s_active, s_scheduled, s_retry, s_resume, s_followups, s_journal, s_stopped) == 0
local mark, in_active, due, journal = {reason = '', interruptions = 0, runs = 0}, {}, {}, {}
if not ordinary then
  if ends == '' and call('EXISTS', s_paused) == 1 then return {'paused'} end
  if call('EXISTS', s_stopped) == 1 then
    local batch, more = stopped_batch(s_deliveries, s_longest, s_outbox, s_owed, s_task, s_stopped, stop_batch)
    call('ZCARD', s_archived)
    archive_stopped(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_stopped, s_task, batch, now)
    if #batch > 0 then call('HSET', s_run, 'unsaid', (run.fence or '0') .. ' ' .. batch[#batch].id) end
    mark_stopping(s_run, more)
    return {'again', now}
  end
  mark, in_active, due = load_mark(s_resume), call('LRANGE', s_active, 0, -1), due_tasks(s_retry, s_scheduled, s_task, now)
  journal = fields_5(s_journal)
end

-- 4. The turn that goes on, or ends, loses messages that another program has deleted or made too long. Others in
-- active are of no turn: a stock asynq.Server died with them, or a record was lost. They go back to the head of
-- the queue, unless such a server has a lease: wait for it.
local group, gone, waits = {}, 0, false
do
  local strays, lost, place = {}, {}, {}
  for _, id in ipairs(in_active) do place[id] = true end
  if turn then
    local ok, ids = try(cjson.decode, run.ids)
    for _, id in ipairs(ok and type(ids) == 'table' and ids or {}) do
      local t = place[id] and load_task(s_longest, s_task, id)
      if t and t.msg and not t.too_long then
        group[#group + 1] = t
        place[id] = false
      end
    end
  end
  for _, id in ipairs(in_active) do
    if place[id] then
      local theirs = leased(s_lease, s_task, id, now)
      if theirs then return {'wait', theirs} end
      local there = call('HEXISTS', s_task .. id, 'msg') == 1
      strays[#strays + 1] = there and id or nil
      lost[#lost + 1] = not there and id or nil
    end
  end
  if #strays > 0 or #lost > 0 or turn and #group == 0 then
    call('LLEN', s_pending)
    call('DEL', s_lease) -- the first write frees memory; none is live
    for _, id in ipairs(lost) do call('LREM', s_active, 1, id) end
    if turn and #group == 0 then
      call('DEL', s_journal)
      close_question(s_deliveries, s_outbox, s_prefix, s_task, now)
      call('HSET', s_run, 'phase', 'idle')
    end
    call('HSET', s_run, 'special', '1') -- for what a lost record knew
    for _, id in ipairs(strays) do
      requeue_message(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, id)
      pcall('HINCRBY', s_task .. id, 'redelivered', 1)
    end
    return {'again', 0}
  end
end

-- 5. The death of the turn's owner. One that has not confirmed its claim may not know of it, because the reply may
-- be lost: that counts neither as a death nor as an interruption. Nor does the loss of an owner that has reported
-- that it lives: see survive. A turn with too many deaths is given up, but one of several messages without a step
-- is taken apart once: each of them may have one more.
local dead = turn and run.phase ~= 'parked'
local survived = dead and string.match(run.survived or '', '^%d+') == run.fence
local told = turn and string.match(run.seq or '', '^(%d+) ') == run.fence
local shown = string.match(run.seq or '', '^(%d+) [1-9]') == run.fence -- followers have seen its start
local crashed, excused, died = false, false, 0
if ending and dead and told and not survived then
  if doubts(s_run, s_sentinel, run, ttl) then return {'held', tonumber(ttl)} end
  end_unwritten(s_active, s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_journal, s_large_bytes, s_lease, s_outbox, s_owed, s_pending, s_prefix, s_processed, s_processed_day, s_resume, s_run, s_short, s_state, s_task, run, group, ends, now, shown)
  return {'again', now}
end
if dead and ends == '' and run.phase == 'running' and survived then
  excused = interrupt(mark, run.fence, LEASE_LOST, now, false)
elseif dead and ends == '' and told and not survived then
  local progressed = journal.progress == run.fence
  crashed = run.phase == 'running' and interrupt(mark, run.fence, 'crash', now, stuck_limit, progressed)
  if run.phase == 'starting' or crashed and not progressed then died = (tonumber(call('HGET', s_task .. group[1].id, 'deaths')) or 0) + 1 end
  if crashed and mark.suspended then
    ends = 'given up: its worker died in ' .. (mark.interruptions < stuck_limit and mark.runs or mark.interruptions) .. ' turns in a row'
  elseif died >= stuck_limit then
    ends = 'given up: its worker died ' .. died .. ' times'
  end
  if (ends ~= '' or crashed and crash_suspends) and doubts(s_run, s_sentinel, run, ttl) then return {'held', tonumber(ttl)} end
  if ends ~= '' and #group > 1 and not journal.closed and other == '' and (run.rotated or '') == '' then
    call('LLEN', s_pending)
    call('DEL', s_journal)
    for i = #group, 1, -1 do requeue_message(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, group[i].id, 'deaths', stuck_limit - 1) end
    if crashed then
      mark.interruptions, mark.runs, mark.suspended = stuck_limit - 1, 0, false
      store_interruption(s_resume, s_run, mark)
    end
    close_question(s_deliveries, s_outbox, s_prefix, s_task, now)
    call('HSET', s_run, 'phase', 'idle')
    return {'again', 0}
  end
end

-- 6. Else the next turn, from the head of the queue.
local first = group[1]
if not turn then first, gone = head(s_longest, s_pending, s_task, due) end
if first and first.too_long and not turn then
  if #due == 0 and gone == 0 then -- these come first
    local ids, batch = call('LRANGE', s_pending, '-100', -1), {} -- one call archives at most a hundred
    for i = #ids, 1, -1 do
      local bytes = too_long(s_longest, s_task, ids[i])
      if not bytes then break end
      batch[#batch + 1] = {id = ids[i], bytes = bytes, unique = lock_of(s_task, ids[i]), route = route_of(s_deliveries, s_outbox, s_owed, s_task, ids[i])}
    end
    call('ZCARD', s_archived)
    for _, t in ipairs(batch) do
      call('RPOP', s_pending)
      archive_too_long(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_longest, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_task, t, now)
    end
    return {'again', now}
  end
  first = false
end
if first and not turn then group, waits = gather(s_longest, s_pending, s_task, first, gone, now, turn_limits) end
if #due == 0 and (waits or not first and gone == 0) then
  waits = waits or next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
  if waits then return {'wait', waits} end
  return {'empty'}
end
if #due > 0 then call('LLEN', s_pending) end -- a key of a wrong type fails before the first write
check_routes(s_deliveries, s_outbox, s_owed, group)

-- 7. The session is claimed. All writes come after this one.
if not call('SET', s_sentinel, s_token, 'NX', 'PX', ttl) then return {'held', tonumber(ttl)} end
count_processed(s_processed, s_processed_day, tonumber(run.done) or 0)
forward(s_pending, s_task, due, now) -- delayed tasks join the queue
if gone > 0 then call('LTRIM', s_pending, 0, -1 - gone) end -- ids without a task

-- 8. Nothing can run now: the session is released again.
if not first or waits then
  call('DEL', s_sentinel)
  call('HSET', s_run, 'token', '', 'phase', 'idle', 'done', '0')
  local at = waits or next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
  if at and at <= now then return {'again', 0} end
  if at then return {'wait', at} end
  return {'empty'}
end

-- 9. A dead owner's run ends. If its start is not in the stream yet, write it now.
if dead then
  if not shown then append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, dead_event(s_journal, s_prefix, run, cjson.decode(run.ids))) end
  call('DEL', s_lease)
  for _, t in ipairs(group) do
    pcall('HINCRBY', s_task .. t.id, 'redelivered', 1)
    t.redelivered = (tonumber(t.redelivered) or 0) + 1
    if run.phase == 'starting' and died > 0 then -- in each, as the first may leave the turn
      call('HSET', s_task .. t.id, 'deaths', died, 'died', string.sub(((call('HGET', s_task .. t.id, 'died')) or '') .. run.fence .. ' ', -140))
    end
  end
  close_question(s_deliveries, s_outbox, s_prefix, s_task, now)
  if crashed or excused then store_interruption(s_resume, s_run, mark) end
  if crashed then call('HSET', s_resume, 'crashes', string.sub((mark.crashes or '') .. (run.fence .. (journal.progress == run.fence and '+' or '')) .. ' ', -140)) end
end

-- 10. The transcript: a turn keeps its own. A suspended session begins a new one, under the same queue and lock. If only
-- a crash suspended it, its interruptions are still counted: its message may be the one that kills
-- workers.
local reset, resumed, dropped, rotated = '', '', record_dropped, (run.rotated or '') ~= '' and run.rotated
local keeps_log = turn or belongs(s_task, journal, first.id)
if turn then sid = run.sid end
if ends == '' and (mark.suspended or crashed and crash_suspends) then
  sid, rotated, reset, dropped, keeps_log = turn and rotated, false, 'suspended', '', keeps_log and journal.closed
  call('DEL', s_resume)
  call('HDEL', s_record, 'title', 'title_by')
  call('HDEL', s_run, 'unsaid')
  forget_notes(s_record)
  if not mark.suspended then call('HSET', s_resume, 'interruptions', mark.interruptions, 'runs', mark.runs) end
elseif ends == '' then
  if turn and not shown then reset = of_turn(run, run.reset) end
  if mark.pending then resumed = mark.reason ~= '' and mark.reason or 'restart_timeout' end
end
sid = sid or fresh_sid
if sid ~= run.sid then entries = 0 end

-- 11. The turn begins, or its next run.
local ids, messages = take(s_active, s_pending, s_task, group, now, turn)
if not ordinary then
  for _, t in ipairs(group) do pcall('HDEL', s_followups, own_id(s_prefix, t.id)) end
end
local fence = begin(s_record, s_run, s_token, not run.fence, math.max(tonumber(run.fence) or 0, tonumber(record_fence) or 0), sid, ids, entries, record_created_at)
if other ~= '' then
  call('HSET', s_run, 'other_agent', fence .. ' ' .. other)
elseif bound ~= (record_agent or DEFAULT_AGENT) then
  call('HSET', s_record, 'agent', bound)
end
if ends ~= '' then call('HSET', s_run, 'ending', fence .. ' ' .. ends) end
if turn and rotated then
  call('HSET', s_record, 'session_id', rotated)
elseif (run.rotated or '') ~= '' then
  call('HSET', s_run, 'rotated', '')
end
if turn and run.steer == run.fence then call('HSET', s_run, 'steer', fence) end
if run.throttled ~= '' then call('HSET', s_run, 'throttled', fence .. ' ' .. run.throttled) end
if journal.fence and keeps_log then
  call('HSET', s_journal, 'fence', fence)
elseif journal.fence then
  call('UNLINK', s_journal)
end
local routed = promise_all(s_deliveries, s_owed, s_prefix, s_task, group)
if not ordinary or routed or (run.special or '') ~= '' then
  call('HSET', s_run, 'special', (routed or other ~= '' or call('EXISTS', s_resume, s_journal) > 0) and '1' or '')
end
if reset ~= '' then call('HSET', s_run, 'reset', fence .. ' ' .. reset) end
if resumed ~= '' then call('HSET', s_run, 'resume', fence .. ' ' .. resumed) end
local carries, began, keeps = carries_on(s_journal, fence)
return {'turn', now, fence, sid, entries, notes_record(s_record, dropped), messages, reset, resumed, bound, carries, began, keeps, ends, run.throttled}

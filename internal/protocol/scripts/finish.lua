-- Code generated from ../lua/finish.lua by go generate; DO NOT EDIT.
--
-- finish: ends a turn. It acks or archives the turn's messages, appends its entries and publishes
-- its reply. Then it takes the next message under the same sentinel with a new fence, or releases
-- the session. It does all of this or nothing.
--
-- The fast path is for the common case: the turn had one message and is done, and its session is
-- ordinary. It ends the turns of many sessions in one call. In other cases it undoes its writes,
-- and the worker sends the full path.
--
-- KEYS sentinel run record followups resume events transcript journal pending active lease paused scheduled retry completed
-- KEYS processed processed_day archived failed failed_day owed outbox deliveries
-- ARGS
--   s.events_cap int           see append_event
--   s.short number             bytes
--   s.large_bytes int
--   transcript_ttl int         ms
--   phase                      of a next turn
--   s.longest number           how many bytes a task's msg may have
--   warm bit                   the worker keeps agents warm
-- ARGS
--   ttl int                    the sentinel's, ms
--   turn_limits                "messages bytes" that a turn has at most
--   retention number           seconds
-- EACH
--   s.task                     prefix of the task hashes
--   s.token
--   s.fence int
--   outcome                    JSON: the event and the tasks' result
--   start                      the turn's start, JSON, if the stream does not have it yet, or ''
--   bounds                     of the transcript, see bound_transcript; '': it is not bounded now
-- EACH
--   s.prefix                   of turn ids
--   release flag               take no next message
--   why                        the reason, if the messages are archived, else ''
--   well flag                  the turn is done: clear mark and interruptions
--   sid                        the turn's transcript id
--   noted flag                 the turn began with notes of dropped messages
--   told_ids number            how many ids of dropped messages it has told its agent
--   omitted number             the record's omitted when the turn got the notes
--   short_outcome              JSON, of a turn of many messages: the result of all but the first
--     one; '': the outcome
--   ending list                ids of the messages that end
--   untaken list               ids of steered messages that go back to their places in the queue, or
--     are archived if a stop of this turn was requested
-- EACH
--   entries range              JSON
-- RETURNS
--   'next' now:int fence:int sid entries:int dropped messages:message     as in claim
--   'released' at:int now:int            at: when it can be claimed again, ms; 0: never
--   'following' id msg age:ms redelivered:int unique:flag     the fast path's 'next': its caller knows the rest
--   'lost'
--   'special'                            the fast path has done nothing
--   message: id msg age:ms redelivered:int unique:flag steer:flag     as in claim
--
-- A repetition returns the same, or 'special' on the fast path. The fast path writes statistics
-- every ten turns and with a release. Until then the run record counts these turns, and the next
-- claim writes those of a dead owner.

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_followups, s_resume, s_events, s_transcript, s_journal, s_pending, s_active, s_lease, s_paused, s_scheduled, s_retry, s_completed, s_processed, s_processed_day, s_archived, s_failed, s_failed_day, s_owed, s_outbox, s_deliveries, s_events_cap, s_short, s_large_bytes, s_longest, s_task, s_token, s_fence, s_prefix = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23], ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[6]), ARGV[11], ARGV[12], ARGV[13], ARGV[17]
local function fields_1(key)
  local v = call('HMGET', key, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route', 'steer')
  return {msg = v[1], seen = v[2], redelivered = v[3], quiet = v[4], unique_key = v[5], route = v[6], steer = v[7]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'seq', 'first')
  return {seq = v[1], first = v[2]}
end
local function fields_3(key)
  local v = call('HMGET', key, 'seq', 'state')
  return {seq = v[1], state = v[2]}
end
local function fields_4(key)
  local v = call('HMGET', key, 'omitted', 'omitted_told')
  return {omitted = v[1], omitted_told = v[2]}
end
local function fields_5(key)
  local v = call('HMGET', key, 'token', 'fence', 'entries', 'done', 'rotated', 'stopping', 'stop', 'last', 'other_agent')
  return {token = v[1], fence = v[2], entries = v[3], done = v[4], rotated = v[5], stopping = v[6], stop = v[7], last = v[8], other_agent = v[9]}
end
local function fields_6(key)
  local v = call('HMGET', key, 'ids', 'sid')
  return {ids = v[1], sid = v[2]}
end

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
local WHY_STOPPED = 'stopped by user'

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

-- One call frees about FREED bytes more than its turn has written. Written text takes up to twice
-- its size.
local FREED = 16 * 1024 * 1024

-- bound_transcript(s, len, count, bounds) bounds a transcript of len entries, after a turn has
-- appended count. bounds is "entries bytes size". It keeps the newest entries. While these take
-- more memory in Redis than bytes, it removes the oldest, a sixteenth at a time. size is how many
-- bytes the turn's entries have; 0: the memory need not be measured. If a limit was lowered, the
-- next turns remove the rest.
--
-- The memory is measured, not counted: other programs may change the transcript, too.
local function bound_transcript(s_transcript, len, count, bounds)
  local cap, most, size = string.match(bounds, '^(%d+) (%d+) (%d+)$')
  cap, most, size = tonumber(cap), tonumber(most), tonumber(size)
  if len > cap then
    pcall('LTRIM', s_transcript, string.format('%d', (math.min(len - cap, count + 1000))), '-1')
    len = cap
  end
  if size == 0 then return end
  local first, freed = false, FREED + 2 * size
  for _ = 1, 64 do
    local bytes = pcall('MEMORY', 'USAGE', s_transcript, 'SAMPLES', '0')
    if type(bytes) ~= 'number' then bytes = pcall('MEMORY', 'USAGE', s_transcript) end -- the embedded server knows no SAMPLES
    first = first or bytes
    if type(bytes) ~= 'number' or bytes <= most or len <= 1 or first - bytes >= freed then return end
    local out = math.max(math.floor(len / 16), 1)
    pcall('LTRIM', s_transcript, out, '-1')
    len = len - out
  end
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

-- complete(s, id, msg, unique, outcome, retention, seconds) ends a message that was carried out.
-- Without a retention it deletes the task. The caller adds the task to the completed ones.
local function complete(s_task, id, msg, unique, outcome, retention, seconds)
  if retention > 0 then
    call('HSET', s_task .. id, 'state', 'completed', 'result', outcome, 'msg', ((msg .. '\96' .. varint(retention) .. '\104' .. varint(seconds))))
  else
    call('DEL', s_task .. id)
  end
  if unique then call('DEL', unique) end
end

-- count_processed(s, n) and count_archived(s, n) add n ended messages to asynq's statistics.
local function count_processed(s_processed, s_processed_day, n) add(s_processed, s_processed_day, n) end

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

-- earlier_result(s, run) returns the result of the same request if it was sent before and its reply
-- was lost, or false.
local function earlier_result(s_fence, s_token, run)
  local mine = s_token .. ' ' .. s_fence .. ' '
  if run.last and string.sub(run.last, 1, #mine) == mine then return string.sub(run.last, #mine + 1) end
  return false
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
  local t = fields_1(s_task .. id)
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

-- of_turn(run, value) returns what stands after the fence in the value of one of run's fields, or '' if it is another
-- turn's.
local function of_turn(run, value)
  local of, what = string.match(value or '', '^(%d+) (.*)$')
  return of == run.fence and what or ''
end

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
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
    local t = tasks[id] or fields_2(s_task .. id)
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
    local t = fields_3(s_task .. id)
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

-- noted_ids(dropped) returns the ids of the record's dropped as an array. If it cannot be read, the
-- array is empty.
local function noted_ids(dropped)
  local ok, ids = try(cjson.decode, dropped or '')
  if ok and type(ids) == 'table' then return ids end
  return {}
end

-- remaining_notes(s, dropped, reported, before) returns the record's dropped and omitted_told after
-- a turn. Its agent received the first reported ids of dropped; omitted was before then.
local function remaining_notes(s_record, dropped, reported, before)
  local n, rest = fields_4(s_record), {}
  local pushed_out = math.min(math.max((tonumber(n.omitted) or 0) - before, 0), reported) -- of these, meanwhile
  local ids = noted_ids(dropped)
  for i = reported - pushed_out + 1, #ids do rest[#rest + 1] = ids[i] end
  return #rest > 0 and cjson.encode(rest) or '', math.max((tonumber(n.omitted_told) or 0), before + pushed_out)
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

-- route_of(s, id) returns a task's route, or false. Scripts call it before their first write.
local function route_of(s_deliveries, s_outbox, s_owed, s_task, id)
  local route = call('HGET', s_task .. id, 'route')
  if route then check_outbox(s_deliveries, s_outbox, s_owed) end
  return route
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

local transcript_ttl, phase, warm, ttl, turn_limits, retention, outcome, start, bounds, release, why, well, sid, noted, told_ids, omitted, short_outcome = ARGV[4], ARGV[5], ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10]), ARGV[14], ARGV[15], ARGV[16], ARGV[18] == '1', ARGV[19], ARGV[20] == '1', ARGV[21], ARGV[22] == '1', tonumber(ARGV[23]), tonumber(ARGV[24]), ARGV[25]
local at = 26
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local ending = list()
local untaken = list()
local entries_first, entries_last = at + 1, at + ARGV[at]

-- follow(now, id, msg, seen, redelivered, unique_key) returns the message as a flat result, because
-- a nested table costs as much as all its fields.
local function follow(now, id, msg, seen, redelivered, unique_key)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key then
    return {'following', id, msg, age, tonumber(redelivered) or 0, unique_key and 1 or 0}
  end
  return {'following', id, msg, age}
end
local now = now_ms()
local run = fields_5(s_run)

-- 1. Only the owner ends its turn. A repeated call returns the same result.
if not owned(s_fence, s_sentinel, s_token, run) then
  local before = earlier_result(s_fence, s_token, run)
  if before == 'released' then return {'released', next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now) or 0, now} end
  if before == 'next' and run.token == s_token and (redis.call('GET', s_sentinel) == s_token) then
    local t = fields_6(s_run)
    return {'next', now, tonumber(run.fence), t.sid, tonumber(run.entries) or 0, notes_record(s_record, call('HGET', s_record, 'dropped')), message_records(s_longest, s_task, cjson.decode(t.ids), now)}
  end
  return {'lost'}
end

-- 2. The messages that end.
local seconds, archives = math.floor(now / 1000), why ~= ''
local acks, gone_tasks = {}, {}
for i, id in ipairs(ending) do
  local msg, unique = load_msg(s_task, id)
  if msg then
    acks[#acks + 1] = {id = id, msg = msg, unique = unique, outcome = i > 1 and short_outcome ~= '' and short_outcome or outcome,
      route = route_of(s_deliveries, s_outbox, s_owed, s_task, id)}
  else -- another program has deleted the task
    gone_tasks[#gone_tasks + 1] = id
  end
end

-- 3. Most sessions are ordinary: they have none of these keys, and no notes. In the others, due are
-- due delayed tasks, and dropped are the notes.
local ordinary = not noted and call('EXISTS', s_paused, s_scheduled, s_retry, s_followups, s_resume, s_journal) == 0
local due, dropped, paused = {}, '', false
if not ordinary then
  due, dropped, paused = due_tasks(s_retry, s_scheduled, s_task, now), call('HGET', s_record, 'dropped') or '', call('EXISTS', s_paused) == 1
end

-- 4. Steered messages that the agent has not taken, and the next turn.
release = release or of_turn(run, run.other_agent) ~= '' -- the next claim takes another agent
local first, gone, group = false, 0, {}
local back = false -- see places
local stopped_too = {} -- the /stop came too late for the turn, but these have not begun
if #untaken > 0 and run.stop == s_fence then
  for _, id in ipairs(untaken) do
    local msg, unique = load_msg(s_task, id)
    stopped_too[#stopped_too + 1] = {id = id, msg = msg, unique = unique, route = route_of(s_deliveries, s_outbox, s_owed, s_task, id)}
  end
  untaken = {}
  call('ZCARD', s_archived)
end
if #untaken > 0 then
  back = places(s_followups, s_pending, s_prefix, s_task, untaken)
  if back.head and not release and not paused then
    first = load_task(s_longest, s_task, back.head)
    -- The next claim gathers collected messages, when all are back.
    if not first.msg or first.quiet or first.too_long then first = false end
    group[1] = first
  end
elseif release or paused then
  call('LLEN', s_pending)
else
  first, gone = head(s_longest, s_pending, s_task, due)
  if first and first.too_long then first = false end -- the next claim archives it
  if first then
    local waits
    group, waits = gather(s_longest, s_pending, s_task, first, gone, now, turn_limits)
    if waits then first = false end
  end
end
local remaining, omitted_told = false, 0 -- the notes that stay for later turns
if told_ids > 0 and dropped ~= '' then remaining, omitted_told = remaining_notes(s_record, dropped, told_ids, omitted) end

check_routes(s_deliveries, s_outbox, s_owed, group)

-- 5. The messages leave active, and the transcript gets the entries. The first writes free memory.
-- Writes that may fail on a key of a wrong type are undone.
local bin, score = s_completed, string.format('%d', (seconds + retention))
if archives then bin, score = s_archived, string.format('%d', seconds) end
local done, broken = {}, false
if #acks == 0 then call('PEXPIRE', s_sentinel, ttl) end
for _, a in ipairs(acks) do
  if call('LREM', s_active, '-1', a.id) == 1 then -- the oldest is the last
    done[#done + 1] = a
    broken = retention > 0 or archives
    broken = broken and pcall('ZADD', bin, score, a.id)
    if broken and type(broken) == 'table' and broken.err then break end
    broken = false
  end
end
local len, count = 0, entries_last - entries_first + 1
if not broken then
  for i = entries_first, entries_last, 1000 do -- unpack has a limit
    len = pcall('RPUSH', s_transcript, unpack(ARGV, i, math.min(i + 999, entries_last)))
    if type(len) == 'table' then
      broken = len
      break
    end
  end
end
if broken then
  for i = #done, 1, -1 do
    pcall('ZREM', bin, done[i].id)
    call('RPUSH', s_active, done[i].id)
  end
  return broken
end

-- 6. The messages end.
for _, id in ipairs(gone_tasks) do
  call('LREM', s_active, '-1', id)
  pcall('ZREM', s_lease, id)
  pcall('HDEL', s_followups, own_id(s_prefix, id))
end
if #done < #acks then -- another program has taken them out of active
  for _, a in ipairs(acks) do pcall('ZREM', s_lease, a.id) end
end
for _, a in ipairs(done) do
  pcall('ZREM', s_lease, a.id)
  if not ordinary then pcall('HDEL', s_followups, own_id(s_prefix, a.id)) end
  if archives then
    archive(s_archived, s_task, a.id, a.msg, a.unique, why, a.outcome, now)
    if count == 0 and (run.rotated or '') == '' then call('HSET', s_run, 'unsaid', s_fence .. ' ' .. a.id) end
    count_archived(s_failed, s_failed_day, s_processed, s_processed_day, 1)
  else
    complete(s_task, a.id, a.msg, a.unique, a.outcome, retention, seconds)
  end
end
if gone > 0 then call('LTRIM', s_pending, 0, -1 - gone) end -- ids without a task
if back then return_untaken(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, back) end

-- 7. Leftovers of earlier turns: the journal, the resume mark, and the notes that the agent got.
local rotated = run.rotated and run.rotated ~= ''
if not ordinary then
  call('UNLINK', s_journal)
  if well then
    call('DEL', s_resume)
  elseif rotated then -- the mark is the old transcript's
    call('HDEL', s_resume, 'pending', 'reason', 'marked_at', 'suspended')
  end
  if remaining then
    dropped = remaining
    pcall('HSET', s_record, 'dropped', dropped, 'omitted_told', string.format('%d', omitted_told))
  end
end
if well then call('HSET', s_run, 'special', run.stopping or '') end -- the leases are gone, too
local total = (tonumber(run.entries) or 0) + count
if bounds ~= '' then bound_transcript(s_transcript, len, count, bounds) end
if count > 0 and (len == count or not first) then call('PEXPIRE', s_transcript, transcript_ttl) end
forward(s_pending, s_task, due, now)

-- 8. A rotation during the turn takes effect now: the count is that of the next turn's transcript.
if rotated then sid, total = run.rotated, 0 end
count_processed(s_processed, s_processed_day, (tonumber(run.done) or 0) + (archives and 0 or #done))

-- 9. The end is reported to destinations and in the event stream.
close_question(s_deliveries, s_outbox, s_prefix, s_task, now)
keep_promises(s_deliveries, s_outbox, s_owed, s_prefix, s_task, done, outcome, now)
append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, outcome, start)
for _, t in ipairs(stopped_too) do
  pcall('ZREM', s_lease, t.id)
  if call('LREM', s_active, '1', t.id) == 1 then
    archive_as_stopped(s_archived, s_deliveries, s_events, s_events_cap, s_failed, s_failed_day, s_followups, s_large_bytes, s_outbox, s_owed, s_prefix, s_processed, s_processed_day, s_run, s_short, s_task, t, now)
    call('HSET', s_run, 'unsaid', s_fence .. ' ' .. t.id)
  else
    pcall('HDEL', s_followups, own_id(s_prefix, t.id))
  end
end

-- 10. The session is released, or the next turn begins.
if not first then
  call('DEL', s_sentinel)
  if not ordinary and call('EXISTS', s_pending) == 0 then call('UNLINK', s_followups) end
  set_idle(s_run, warm, 'last', s_token .. ' ' .. s_fence .. ' released', 'sid', sid, 'entries', string.format('%d', total), 'ended_at', string.format('%d', now))
  return {'released', next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now) or 0, now}
end

local fence = string.format('%d', (math.max((tonumber(s_fence or 0) or 0) + 1, now)))
local ids, messages = take(s_active, s_pending, s_task, group, now)
if not ordinary then
  for _, t in ipairs(group) do pcall('HDEL', s_followups, own_id(s_prefix, t.id)) end
end
call('HSET', s_run, 'fence', fence, 'ids', ids, 'started_at', (string.format('%d', now)), 'entries', string.format('%d', total), 'done', '0', 'last', s_token .. ' ' .. s_fence .. ' next')
if promise_all(s_deliveries, s_owed, s_prefix, s_task, group) then call('HSET', s_run, 'special', '1') end
if phase ~= 'running' then call('HSET', s_run, 'phase', phase) end
if rotated then call('HSET', s_run, 'sid', sid, 'rotated', '') end
return {'next', now, tonumber(fence), sid, total, notes_record(s_record, dropped), messages}

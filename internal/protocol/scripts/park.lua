-- Code generated from ../lua/park.lua by go generate; DO NOT EDIT.
--
-- park: lets a turn wait without an owner until a time, and releases the session. It is the only way to leave a
-- turn that has not ended: it keeps its messages, in active, and its journal, and the next claim goes on with it.
--
-- KEYS sentinel run resume events journal pending active lease scheduled retry processed processed_day
-- KEYS outbox deliveries
-- ARGS
--   s.task                 prefix of the session's task hashes
--   s.prefix               of turn ids
--   s.token
--   s.fence int
--   s.events_cap int       see append_event
--   s.short number         bytes
--   s.large_bytes int
--   wait number            before it may be claimed again, ms; 0: at once
--   attempts               so far, for asynq's retried; '': none was spent
--   why                    the error, if an attempt was spent
--   event                  JSON
--   start                  the turn's start, JSON, if the stream does not have it yet, or ''
--   journal_ttl int        ms
--   reason                 why a running turn was interrupted, for the resume mark; '': it was not
--   stuck_limit number     interruptions in a row that suspend the session; a lost lease is none
--   age number             for how long the worker has run, ms
--   progressed flag        this run has ended a tool that no earlier one had
--   waits                  the number of the open question for whose decision it waits, see ask; '': none
--   throttled flag         a provider asks for the wait: that is neither an attempt nor an interruption
--   ids list               of the tasks, oldest first
-- RETURNS
--   'released' at:int now:int      at: when it can be claimed again, ms; 0: never
--   'requested' request    'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_resume, s_events, s_journal, s_pending, s_active, s_lease, s_scheduled, s_retry, s_processed, s_processed_day, s_outbox, s_deliveries, s_task, s_prefix, s_token, s_fence, s_events_cap, s_short, s_large_bytes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'phase', 'done', 'hold', 'last', 'stop', 'rollback', 'interrupt', 'question', 'answered', 'rotated', 'throttled')
  return {token = v[1], fence = v[2], phase = v[3], done = v[4], hold = v[5], last = v[6], stop = v[7], rollback = v[8], interrupt = v[9], question = v[10], answered = v[11], rotated = v[12], throttled = v[13]}
end

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

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

-- parked_until(run) returns until when (ms) a parked turn waits, 0 if its end was requested, or false if
-- none is parked. A parked turn has no owner: its messages stay in active.
local function parked_until(run)
  if run.phase ~= 'parked' then return false end
  if requested(run, run.fence) ~= '' then return 0 end
  return tonumber(run.hold) or 0
end

-- claimable_at(s, run, now) returns when a turn can be taken, as next_at, or a parked one.
local function claimable_at(s_pending, s_retry, s_run, s_scheduled, s_task, run, now)
  local till = parked_until(run)
  if till then return math.max(till, now) end
  return next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
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

-- add(counter, day, n) adds n to one of asynq's counters, and to that of the day, which lives for
-- 90 days.
local function add(counter, day, n)
  if n == 0 then return end
  if pcall('INCRBY', day, n) == n then call('EXPIRE', day, 90 * 24 * 3600) end
  pcall('INCRBY', counter, n)
end

-- count_processed(s, n) and count_archived(s, n) add n ended messages to asynq's statistics.
local function count_processed(s_processed, s_processed_day, n) add(s_processed, s_processed_day, n) end

-- earlier_result(s, run) returns the result of the same request if it was sent before and its reply
-- was lost, or false.
local function earlier_result(s_fence, s_token, run)
  local mine = s_token .. ' ' .. s_fence .. ' '
  if run.last and string.sub(run.last, 1, #mine) == mine then return string.sub(run.last, #mine + 1) end
  return false
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

-- load_mark(s) returns the session's resume record.
local function load_mark(s_resume)
  local v = call('HMGET', s_resume, 'pending', 'reason', 'marked_at', 'interruptions', 'fence', 'suspended', 'crashes', 'runs', 'drained_at')
  local m_pending, m_reason, m_marked_at, m_interruptions, m_fence, m_suspended, m_crashes, m_runs, m_drained_at = v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]
  return {pending = m_pending == '1', reason = m_reason or '', marked_at = tonumber(m_marked_at), interruptions = tonumber(m_interruptions) or 0,
    fence = m_fence, suspended = m_suspended == '1', crashes = m_crashes,
    runs = tonumber(m_runs) or 0, drained_at = tonumber(m_drained_at)}
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

-- store_interruption(s, mark) writes interrupt's changes.
local function store_interruption(s_resume, s_run, mark)
  call('HSET', s_resume, 'pending', '1', 'reason', mark.reason, 'marked_at', string.format('%d', mark.marked_at),
    'fence', mark.fence, 'interruptions', mark.interruptions, 'runs', mark.runs)
  if mark.drained_at then call('HSET', s_resume, 'drained_at', string.format('%d', mark.drained_at)) end
  if mark.suspended then call('HSET', s_resume, 'suspended', '1') end
  call('HSET', s_run, 'special', '1')
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

local wait, attempts, why, event, start, journal_ttl, reason, stuck_limit, age, progressed, waits, throttled = tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14], tonumber(ARGV[15]), tonumber(ARGV[16]), ARGV[17] == '1', ARGV[18], ARGV[19] == '1'
local at = 20
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local ids = list()

local now = now_ms()
local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then
  if earlier_result(s_fence, s_token, run) then return {'released', claimable_at(s_pending, s_retry, s_run, s_scheduled, s_task, run, now) or 0, now} end
  return {'lost'}
end
local request = requested(run, s_fence)
if request ~= '' then return {'requested', request} end

local of, question = string.match(run.question or '', '^(%d+) (%d+) ')
local asks = waits ~= '' and waits == question and of == s_fence
if asks and (run.rotated or '') ~= '' then return {'requested', 'interrupt'} end -- as /new of a turn that waits
if waits ~= '' and (not asks or string.match(run.answered or '', '^%d+ %d+ ') == of .. ' ' .. question .. ' ') then wait = 0 end
local failed, again = {}, {}
for _, id in ipairs(ids) do
  local msg = attempts ~= '' and call('HGET', s_task .. id, 'msg')
  if msg then failed[#failed + 1] = {id = id, msg = msg} end
  if attempts == '' and not asks and not throttled and call('HEXISTS', s_task .. id, 'msg') == 1 then again[#again + 1] = id end
end
local mark = load_mark(s_resume)
progressed = progressed or call('HGET', s_journal, 'progress') == s_fence
local interrupted = reason ~= '' and run.phase == 'running'
  and interrupt(mark, s_fence, reason, now, reason ~= LEASE_LOST and stuck_limit, progressed, now - age) -- false: it was counted before
call('LLEN', s_active)

call('DEL', s_sentinel)
for _, id in ipairs(ids) do pcall('ZREM', s_lease, id) end
for _, id in ipairs(again) do pcall('HINCRBY', s_task .. id, 'redelivered', 1) end
for _, f in ipairs(failed) do -- 6 retried; in each, as the first may leave the turn
  call('HSET', s_task .. f.id, 'msg', with_error(f.msg, why, math.floor(now / 1000)) .. '\48' .. varint(math.max(tonumber(attempts), 0)))
end
call('PEXPIRE', s_journal, journal_ttl)
if interrupted then store_interruption(s_resume, s_run, mark) end
count_processed(s_processed, s_processed_day, tonumber(run.done) or 0)
call('HSET', s_run, 'token', '', 'phase', 'parked', 'hold', string.format('%d', (now + wait)), 'last', s_token .. ' ' .. s_fence .. ' released', 'done', '0')
if throttled then call('HSET', s_run, 'throttled', s_fence .. ' ' .. string.format('%d', ((tonumber(of_turn(run, run.throttled)) or 0) + 1))) end
if not asks then
  close_question(s_deliveries, s_outbox, s_prefix, s_task, now)
  call('HDEL', s_run, 'question')
end
append_event(s_events, s_events_cap, s_large_bytes, s_run, s_short, event, start)
return {'released', now + wait, now}

-- finish: ends a turn. It acks or archives the turn's messages, appends its entries and publishes
-- its reply. Then it takes the next message under the same sentinel with a new fence, or releases
-- the session. It does all of this or nothing.
--
-- The fast path is for the common case: the turn had one message and is done, and its session is
-- ordinary. It ends the turns of many sessions in one call. In other cases it undoes its writes,
-- and the worker sends the full path.
--
-- KEYS fast: sentinel run followups paused scheduled retry events transcript pending active completed processed processed_day
-- KEYS full: sentinel run record followups resume events transcript journal pending active lease paused scheduled retry completed
-- KEYS full: processed processed_day archived failed failed_day owed outbox deliveries
-- ARGS
--   s.events_cap int           see append_event
--   s.short number             bytes
--   s.large_bytes int
--   transcript_ttl int         ms
--   phase                      of a next turn
--   s.longest number           how many bytes a task's msg may have
--   warm bit                   the worker keeps agents warm
-- ARGS full
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
-- EACH fast
--   id                         of the task
--   msg                        its message, completed
--   following_fence            of the next turn; '': take no next message
--   now int                    Redis' clock, ms, as the worker estimates it
--   score int                  of a completed task, seconds
--   total int                  entries of the transcript with these
--   done int                   ended messages that are not counted yet, with this
-- EACH full
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

-- follow(now, id, msg, seen, redelivered, unique_key) returns the message as a flat result, because
-- a nested table costs as much as all its fields.
local function follow(now, id, msg, seen, redelivered, unique_key)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key then
    return following{id = id, msg = msg, age = age, redelivered = tonumber(redelivered) or 0, unique = unique_key and 1 or 0}
  end
  return following{id = id, msg = msg, age = age}
end
-- FAST
local run = fields(s.run, 'fence', 'special', 'rotated')
if call('GET', s.sentinel) ~= s.token then return false end
if run.fence ~= s.fence then
  if run.fence ~= following_fence then return false end
  local again = string.match(call('HGET', s.run, 'ids') or '', '^%["(.*)"%]$') -- a repetition
  local function of(field) return call('HGET', s.task .. again, field) end
  return again and of('msg') and follow(now, again, of('msg'), of('seen'), of('redelivered'), of('unique_key'))
end
if (run.special or '') ~= '' or (run.rotated or '') ~= '' or call('EXISTS', s.followups, s.paused, s.scheduled, s.retry) ~= 0
  or following_fence == '' and call('EXISTS', s.pending) ~= 0
  or call('LREM', s.active, '1', id) ~= 1 then
  return false
end

local added, len, ordinary = false, 0, true
local next_id, next_msg, seen, redelivered, unique_key = false, false, false, false, false
if following_fence ~= '' then
  next_id, next_msg, seen, redelivered, unique_key = take_ordinary(s)
  if next_msg and not next_id then ordinary = false end
end
if ordinary then
  added = call('ZADD', s.completed, score, id)
  ordinary = type(added) == 'number'
end
local count = entries_last - entries_first + 1
if ordinary and count > 0 then
  len = call('RPUSH', s.transcript, unpack(ARGV, entries_first, entries_last))
  ordinary = type(len) == 'number'
end
local set = ordinary and end_message(s, id, 'completed', outcome, msg)
if type(set) ~= 'number' or set == 3 then -- 3: there was no such task
  if set == 3 then call('DEL', s.task .. id) end
  if type(len) == 'number' and len > 0 then call('RPOP', s.transcript, count) end
  if added == 1 then call('ZREM', s.completed, id) end
  if next_id then call('LMOVE', s.active, s.pending, 'LEFT', 'RIGHT') end
  call('RPUSH', s.active, id)
  return false
end

if bounds ~= '' then bound_transcript(s, len, count, bounds) end
if count > 0 and (len == count or not next_id) then call('PEXPIRE', s.transcript, transcript_ttl) end
append_event(s, outcome, start)
if not next_id or done == '10' then
  if not call('SET', s.processed_day, done, 'NX', 'EX', '7776000') then call('INCRBY', s.processed_day, done) end
  call('INCRBY', s.processed, done)
  done = '0'
end
if not next_id then
  call('DEL', s.sentinel)
  set_idle(s, warm, 'last', s.token .. ' ' .. s.fence .. ' released', 'entries', total, 'ended_at', now)
  return released{}
end
activate(s, next_id, seen, now)
if phase == 'running' then
  begin_turn(s, following_fence, '["' .. next_id .. '"]', now, 'entries', total, 'done', done)
else
  begin_turn(s, following_fence, '["' .. next_id .. '"]', now, 'entries', total, 'done', done, 'phase', phase)
end
return follow(now, next_id, next_msg, seen, redelivered, unique_key)
-- FULL
local now = now_ms()
local run = fields(s.run, 'token', 'fence', 'entries', 'done', 'rotated', 'stopping', 'stop', 'last', 'other_agent')

-- 1. Only the owner ends its turn. A repeated call returns the same result.
if not owned(s, run) then
  local before = earlier_result(s, run)
  if before == 'released' then return released{at = next_at(s, now) or 0, now = now} end
  if before == 'next' and run.token == s.token and owns(s.sentinel, s.token) then
    local t = fields(s.run, 'ids', 'sid')
    return next{now = now, fence = tonumber(run.fence), sid = t.sid, entries = tonumber(run.entries) or 0,
      dropped = notes_record(s, call('HGET', s.record, 'dropped')), messages = message_records(s, cjson.decode(t.ids), now)}
  end
  return lost{}
end

-- 2. The messages that end.
local seconds, archives = math.floor(now / 1000), why ~= ''
local acks, gone_tasks = {}, {}
for i, id in ipairs(ending) do
  local msg, unique = load_msg(s, id)
  if msg then
    acks[#acks + 1] = {id = id, msg = msg, unique = unique, outcome = i > 1 and short_outcome ~= '' and short_outcome or outcome,
      route = route_of(s, id)}
  else -- another program has deleted the task
    gone_tasks[#gone_tasks + 1] = id
  end
end

-- 3. Most sessions are ordinary: they have none of these keys, and no notes. In the others, due are
-- due delayed tasks, and dropped are the notes.
local ordinary = not noted and call('EXISTS', s.paused, s.scheduled, s.retry, s.followups, s.resume, s.journal) == 0
local due, dropped, paused = {}, '', false
if not ordinary then
  due, dropped, paused = due_tasks(s, now), call('HGET', s.record, 'dropped') or '', call('EXISTS', s.paused) == 1
end

-- 4. Steered messages that the agent has not taken, and the next turn.
release = release or of_turn(run, run.other_agent) ~= '' -- the next claim takes another agent
local first, gone, group = false, 0, {}
local back = false -- see places
local stopped_too = {} -- the /stop came too late for the turn, but these have not begun
if #untaken > 0 and run.stop == s.fence then
  for _, id in ipairs(untaken) do
    local msg, unique = load_msg(s, id)
    stopped_too[#stopped_too + 1] = {id = id, msg = msg, unique = unique, route = route_of(s, id)}
  end
  untaken = {}
  call('ZCARD', s.archived)
end
if #untaken > 0 then
  back = places(s, untaken)
  if back.head and not release and not paused then
    first = load_task(s, back.head)
    -- The next claim gathers collected messages, when all are back.
    if not first.msg or first.quiet or first.too_long then first = false end
    group[1] = first
  end
elseif release or paused then
  call('LLEN', s.pending)
else
  first, gone = head(s, due)
  if first and first.too_long then first = false end -- the next claim archives it
  if first then
    local waits
    group, waits = gather(s, first, gone, now, turn_limits)
    if waits then first = false end
  end
end
local remaining, omitted_told = false, 0 -- the notes that stay for later turns
if told_ids > 0 and dropped ~= '' then remaining, omitted_told = remaining_notes(s, dropped, told_ids, omitted) end

check_routes(s, group)

-- 5. The messages leave active, and the transcript gets the entries. The first writes free memory.
-- Writes that may fail on a key of a wrong type are undone.
local bin, score = s.completed, int(seconds + retention)
if archives then bin, score = s.archived, int(seconds) end
local done, broken = {}, false
if #acks == 0 then call('PEXPIRE', s.sentinel, ttl) end
for _, a in ipairs(acks) do
  if call('LREM', s.active, '-1', a.id) == 1 then -- the oldest is the last
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
    len = pcall('RPUSH', s.transcript, unpack(ARGV, i, math.min(i + 999, entries_last)))
    if type(len) == 'table' then
      broken = len
      break
    end
  end
end
if broken then
  for i = #done, 1, -1 do
    pcall('ZREM', bin, done[i].id)
    call('RPUSH', s.active, done[i].id)
  end
  return broken
end

-- 6. The messages end.
for _, id in ipairs(gone_tasks) do
  call('LREM', s.active, '-1', id)
  pcall('ZREM', s.lease, id)
  pcall('HDEL', s.followups, own_id(s, id))
end
if #done < #acks then -- another program has taken them out of active
  for _, a in ipairs(acks) do pcall('ZREM', s.lease, a.id) end
end
for _, a in ipairs(done) do
  pcall('ZREM', s.lease, a.id)
  if not ordinary then pcall('HDEL', s.followups, own_id(s, a.id)) end
  if archives then
    archive(s, a.id, a.msg, a.unique, why, a.outcome, now)
    if count == 0 and (run.rotated or '') == '' then call('HSET', s.run, 'unsaid', s.fence .. ' ' .. a.id) end
    count_archived(s, 1)
  else
    complete(s, a.id, a.msg, a.unique, a.outcome, retention, seconds)
  end
end
if gone > 0 then call('LTRIM', s.pending, 0, -1 - gone) end -- ids without a task
if back then return_untaken(s, back) end

-- 7. Leftovers of earlier turns: the journal, the resume mark, and the notes that the agent got.
local rotated = run.rotated and run.rotated ~= ''
if not ordinary then
  call('UNLINK', s.journal)
  if well then
    call('DEL', s.resume)
  elseif rotated then -- the mark is the old transcript's
    call('HDEL', s.resume, 'pending', 'reason', 'marked_at', 'suspended')
  end
  if remaining then
    dropped = remaining
    pcall('HSET', s.record, 'dropped', dropped, 'omitted_told', int(omitted_told))
  end
end
if well then call('HSET', s.run, 'special', run.stopping or '') end -- the leases are gone, too
local total = (tonumber(run.entries) or 0) + count
if bounds ~= '' then bound_transcript(s, len, count, bounds) end
if count > 0 and (len == count or not first) then call('PEXPIRE', s.transcript, transcript_ttl) end
forward(s, due, now)

-- 8. A rotation during the turn takes effect now: the count is that of the next turn's transcript.
if rotated then sid, total = run.rotated, 0 end
count_processed(s, (tonumber(run.done) or 0) + (archives and 0 or #done))

-- 9. The end is reported to destinations and in the event stream.
close_question(s, now)
keep_promises(s, done, outcome, now)
append_event(s, outcome, start)
for _, t in ipairs(stopped_too) do
  pcall('ZREM', s.lease, t.id)
  if call('LREM', s.active, '1', t.id) == 1 then
    archive_as_stopped(s, t, now)
    call('HSET', s.run, 'unsaid', s.fence .. ' ' .. t.id)
  else
    pcall('HDEL', s.followups, own_id(s, t.id))
  end
end

-- 10. The session is released, or the next turn begins.
if not first then
  call('DEL', s.sentinel)
  if not ordinary and call('EXISTS', s.pending) == 0 then call('UNLINK', s.followups) end
  set_idle(s, warm, 'last', s.token .. ' ' .. s.fence .. ' released', 'sid', sid, 'entries', int(total), 'ended_at', int(now))
  return released{at = next_at(s, now) or 0, now = now}
end

local fence = int(next_fence(s.fence, now))
local ids, messages = take(s, group, now)
if not ordinary then
  for _, t in ipairs(group) do pcall('HDEL', s.followups, own_id(s, t.id)) end
end
begin_turn(s, fence, ids, int(now), 'entries', int(total), 'done', '0', 'last', s.token .. ' ' .. s.fence .. ' next')
if promise_all(s, group) then call('HSET', s.run, 'special', '1') end
if phase ~= 'running' then call('HSET', s.run, 'phase', phase) end
if rotated then call('HSET', s.run, 'sid', sid, 'rotated', '') end
return next{now = now, fence = tonumber(fence), sid = sid, entries = total, dropped = notes_record(s, dropped), messages = messages}

-- claim: takes the sentinel, and with it the next message, or several that are collected into one
-- turn.
--
-- The fast path is for the common case: only ordinary messages wait, and the last owner has
-- released the session. It claims many sessions in one call. If the head of the queue is not an
-- ordinary message, it moves the head back. It skips tasks that a stock asynq.Server is to retry:
-- they wait for the end of the turn.
--
-- KEYS fast: sentinel run followups resume journal paused scheduled active record pending
-- KEYS full: sentinel run record followups resume events journal pending active lease paused scheduled retry
-- KEYS full: processed processed_day archived failed failed_day stopped owed outbox deliveries
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
-- ARGS full
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
-- EACH full
--   s.prefix         of turn ids
-- RETURNS
--   'turn' now:int fence:int sid entries:int dropped messages:message reset resume mark_age:ms agent carries began:int keeps:int
--     entries: written so far; dropped: 'omitted omitted_told ids' or ''; resume: the reason of
--     the resume mark; mark_age: its age, ms; carries: what the turn's journal has, 'steps' or
--     'entries', or 'interrupt' if the turn was claimed only to be interrupted: no agent runs; began: the fence of the
--     first run that this one goes on from, 0: none; keeps: how many items of its output stand. The fast path
--     leaves out the last seven: its turn's agent is the argument
--   'other' now:int agent missing:int   this worker does not run the session's agent. missing: 1 if
--     no living worker runs it. Then the session's record says so; else nothing is written
--   'held' left:int          ms
--   'paused'
--   'wait' at:int            ms
--   'empty'
--   'again'              claim again: this call has archived a batch of the messages that a /stop
--     found waiting, or of messages at the head of the queue that are too long to be read, or it
--     has removed ids without a task from the queue
--   'special'            the fast path has done nothing
--   message: id msg age:ms redelivered:int unique:flag
--     age: ms; the last two may be left out: 0
--
-- A repetition under the same token returns the same result. The full path begins with SET, unless
-- it archives a batch: in a full Redis no new turn starts.

local now = now_ms()

-- begin(s, first, last, sid, ids, entries, known) writes the beginning of the turn into the run
-- record and the session's record, and returns its fence. first: there is no run record yet; last:
-- the last fence; known: the session has a record. The records of a session's first turn are short:
-- a missing field has its default.
local function begin(s, first, last, sid, ids, entries, known)
  local fence, at = int(next_fence(last, now)), int(now)
  if first and drop == 'new' and warm == '0' then
    begin_turn(s, fence, ids, at, 'entries', '0', 'done', '0', 'token', s.token, 'phase', phase, 'sid', sid, 'worker', worker, 'mode', mode,
      'cap', cap, 'debounce', debounce)
  else
    begin_turn(s, fence, ids, at, 'entries', int(entries), 'done', '0', 'token', s.token, 'phase', phase, 'sid', sid,
      'worker', worker, 'mode', mode, 'cap', cap, 'drop', drop, 'debounce', debounce, 'warm', warm)
  end
  if known then
    call('HSET', s.record, 'session_id', sid, 'fence', fence, 'updated_at', at)
  else
    call('HSET', s.record, 'v', '1', 'session_id', sid, 'fence', fence, 'created_at', at)
  end
  return tonumber(fence)
end
-- FAST
local run = fields(s.run, 'phase', 'fence', 'sid', 'entries', 'hold', 'done', 'rotated', 'reset', 'resume', 'special')
local record = fields(s.record, 'session_id', 'fence', 'created_at', 'dropped', 'agent')
if (record.agent or DEFAULT_AGENT) ~= agent or run.fence == nil or record.fence == nil or (run.phase or 'idle') ~= 'idle' or (run.done or '0') ~= '0' or (run.rotated or '') ~= ''
  or (run.reset or '') ~= '' or (run.resume or '') ~= '' or (run.special or '') ~= '' or (record.dropped or '') ~= '' then
  return false
end
-- A session that never had an owner has none of the keys that only owners write.
if (run.fence or record.fence) and call('EXISTS', s.paused, s.scheduled, s.active, s.followups, s.resume, s.journal) ~= 0
  or not (run.fence or record.fence) and call('EXISTS', s.paused, s.scheduled, s.active) ~= 0 then
  return false
end
local set = call('SET', s.sentinel, s.token, 'NX', 'PX', ttl)
if not set or set.err then return false end
local id, msg, seen, redelivered, unique_key = take_ordinary(s, run.hold)
if not id then
  call('DEL', s.sentinel)
  return false
end
activate(s, id, seen, int(now))
local sid, entries = record.session_id or fresh_sid, tonumber(run.entries) or 0
if sid ~= run.sid then entries = 0 end
local last = math.max(tonumber(run.fence) or 0, tonumber(record.fence) or 0)
local fence = begin(s, not run.fence, last, sid, '["' .. id .. '"]', entries, record.created_at)
return turn{now = now, fence = fence, sid = sid, entries = entries, dropped = '', messages = {message_record(now, id, msg, seen, redelivered, unique_key)}}
-- FULL
local run = fields(s.run, 'token', 'fence', 'phase', 'ids', 'stop', 'interrupt', 'sid', 'entries', 'hold', 'reset', 'resume', 'done', 'rotated', 'rollback', 'seq', 'special', 'survived', 'doubted', 'other_agent', 'ending')
local record = fields(s.record, 'session_id', 'fence', 'created_at', 'dropped', 'agent')
local sid, entries, last_sid = record.session_id, tonumber(run.entries) or 0, run.sid or ''

-- A session keeps its agent: one that has had a turn without a name has DEFAULT_AGENT.
local bound = record.agent or record.fence and DEFAULT_AGENT or agent

-- 1. The present owner keeps the session. A repeated claim returns the same result.
local owner = call('GET', s.sentinel)
if owner == s.token and run.token == s.token then
  if run.other_agent == run.fence then return held{left = call('PTTL', s.sentinel)} end -- chosen since: the turn has another
  local at = tonumber(call('HGET', s.resume, 'marked_at')) or now
  local carries, began, keeps = carries_on(s, run.ending == run.fence, run.fence)
  return turn{now = now, fence = tonumber(run.fence), sid = run.sid, entries = entries, dropped = notes_record(s, record.dropped),
    messages = message_records(s, cjson.decode(run.ids), now), reset = run.reset or '', resume = run.resume or '', mark_age = now - at, agent = bound,
    carries = carries, began = began, keeps = keeps}
end
if owner then return held{left = call('PTTL', s.sentinel)} end
-- Without a message no agent runs: any worker may end what is left of a turn or a /stop.
local name = ' ' .. bound .. ' '
if not string.find(serves, name, 1, true) and call('EXISTS', s.pending, s.active, s.scheduled, s.retry) > 0 then
  local missing = elsewhere ~= '' and not string.find(elsewhere, name, 1, true)
  if missing then call('HSET', s.record, 'needs', bound .. ' ' .. int(now)) end
  return other{now = now, agent = bound, missing = missing and 1 or 0}
end

-- 2. Most sessions are ordinary: they have none of these keys. In the others, in_active has the
-- newest first, and due are due delayed tasks. A dead sender's /stop is finished first.
local ordinary = call('EXISTS', s.paused, s.active, s.scheduled, s.retry, s.resume, s.followups, s.journal, s.stopped) == 0
local mark, in_active, due, journal = {reason = '', interruptions = 0, runs = 0}, {}, {}, {}
if not ordinary then
  if call('EXISTS', s.paused) == 1 then return paused{} end
  if call('EXISTS', s.stopped) == 1 then
    local batch, more = stopped_batch(s, s.stopped, stop_batch)
    call('ZCARD', s.archived)
    archive_stopped(s, batch, now)
    if #batch > 0 then call('HSET', s.run, 'unsaid', (run.fence or '0') .. ' ' .. batch[#batch].id) end
    mark_stopping(s, more)
    return again{}
  end
  mark, in_active, due = load_mark(s), call('LRANGE', s.active, 0, -1), due_tasks(s, now)
  journal = fields(s.journal, 'origin', 'ids', 'closed', 'progress', 'agent', 'began', 'keeps')
end

-- 3. How a dead owner's turn, or a parked one, ends: it is requeued, unless its end was requested, or
-- its message was in too many turns with a worker's death. One that is interrupted begins again, for its new owner to
-- end: that one can read what it has done. An owner that has not confirmed its claim may not know
-- of it, because the reply may be lost: that counts neither as a death nor as an interruption. Nor
-- does the loss of an owner that has reported that it lives: see survive.
local dead = run.fence and (run.phase == 'starting' or run.phase == 'running')
local rotated = (run.rotated or '') ~= ''
local survived = dead and string.match(run.survived or '', '^%d+') == run.fence
local confirmed = dead and not survived and string.match(run.seq or '', '^(%d+) ') == run.fence
local begun = dead or parked_until(run) -- the messages in active are those of run's turn
local request = begun and requested(run, run.fence)
if begun and request == '' and run.ending == run.fence then request = 'interrupt' end
if not dead and begun and begun > now then return wait{at = begun} end
local verdict, crashed, excused = false, false, false
local final = false -- this death suspends the session or ends a message
if request == 'stop' then
  verdict = {status = 'stopped', why = WHY_STOPPED}
elseif request == 'rollback' then
  verdict = {status = 'interrupted', why = 'rolled back by a newer message'}
elseif request == '' and confirmed and run.phase == 'running' then
  crashed = interrupt(mark, run.fence, 'crash', rotated, now, stuck_limit, journal.progress == run.fence)
  if crashed and mark.suspended then
    verdict = {status = 'failed', why = 'given up: its worker died in ' .. (mark.interruptions < stuck_limit and mark.runs or mark.interruptions) .. ' turns in a row'}
  end
  final = crashed and (mark.suspended or crash_suspends)
elseif request == '' and survived and run.phase == 'running' then
  excused = interrupt(mark, run.fence, LEASE_LOST, rotated, now, false)
end

-- 4. Messages in active go back to the head of the queue. If one has another program's live lease,
-- a stock asynq.Server works on this queue: wait for it.
local ours, in_turn, back, ending, lost, given_up = {}, {}, {}, {}, {}, false
if begun then
  local ok, ids = try(cjson.decode, run.ids)
  if ok and type(ids) == 'table' then in_turn = ids end
  for _, id in ipairs(in_turn) do ours[id] = true end
end
for _, id in ipairs(in_active) do
  local theirs = leased(s, id, now)
  if theirs then return wait{at = theirs} end
  local deaths = confirmed and ours[id] and fields(s.task .. id, 'deaths', 'died') or {}
  local died = confirmed and ours[id] and (tonumber(deaths.deaths) or 0) + 1 or 0
  local ends = ours[id] and verdict
  -- A turn without a started agent is not interrupted, but its message may still be the one that
  -- kills workers.
  if ours[id] and not ends and run.phase == 'starting' and died >= stuck_limit then
    ends = {status = 'failed', why = 'given up: its worker died ' .. died .. ' times'}
    given_up = given_up or id == in_turn[1] -- no later turn gets the entries of its earlier one
    final = true
  end
  if call('HEXISTS', s.task .. id, 'msg') == 0 then
    lost[#lost + 1] = id
  elseif ends then
    local msg, unique = load_short(s, id)
    ending[#ending + 1] = {id = id, msg = msg, unique = unique, ends = ends, route = route_of(s, id)}
  else
    back[#back + 1] = {id = id, died = died, fences = deaths.died, again = not dead and ours[id] and 0 or 1} -- a park has counted
  end
end
-- 5. A step that cannot be taken back waits for one more TTL: the owner may live, and report so
-- when it reaches Redis.
if final and run.doubted ~= run.fence then
  if call('SET', s.sentinel, IN_DOUBT, 'NX', 'PX', ttl) then call('HSET', s.run, 'doubted', run.fence) end
  return held{left = tonumber(ttl)}
end
local ends = request == 'interrupt' and #back > 0 -- the turn begins again, in its transcript, to end
if journal.origin and not ends and (journal.agent or bound) ~= bound then journal.origin = '' end -- nobody's: it is deleted

-- 6. The next turn: a message that comes back, or the head of the queue.
local first, gone, waits = false, 0, false
if #back > 0 then
  first = load_task(s, back[#back].id)
  first.redelivered, first.quiet = (tonumber(first.redelivered) or 0) + back[#back].again, false
else
  first, gone = head(s, due)
end
local group = {}
if first and first.too_long then
  -- A dead owner's turn and due messages come first.
  if #in_active == 0 and #due == 0 and not begun and gone == 0 then
    local ids, batch = call('LRANGE', s.pending, '-100', -1), {} -- one call archives at most a hundred
    for i = #ids, 1, -1 do
      local bytes = too_long(s, ids[i])
      if not bytes then break end
      batch[#batch + 1] = {id = ids[i], bytes = bytes, unique = lock_of(s, ids[i]), route = route_of(s, ids[i])}
    end
    call('ZCARD', s.archived)
    for _, t in ipairs(batch) do
      call('RPOP', s.pending)
      archive_too_long(s, t, now)
    end
    return again{}
  end
  first = false
end
if first then
  group = regroup(s, journal, first, back, gone, ends)
  if not group then group, waits = gather(s, first, gone, now, turn_limits) end
  waits = not ends and held_back(first.id, run.hold, now) or waits
end
if #in_active == 0 and #due == 0 and not begun and (waits or not first and gone == 0) then
  waits = waits or next_at(s, run.hold, now)
  if waits then return wait{at = waits} end
  return empty{}
end
if #in_active > 0 or #due > 0 then -- a key of a wrong type fails before the first write
  call('ZCARD', s.archived)
  call('LLEN', s.pending)
end

check_routes(s, group)

-- 7. The session is claimed. All writes come after this one.
if not call('SET', s.sentinel, s.token, 'NX', 'PX', ttl) then return held{left = tonumber(ttl)} end

-- 8. The dead owner's turn ends. If its start is not in the stream yet, write it now.
if dead and string.match(run.seq or '', '^(%d+) [1-9]') ~= run.fence then
  local named = {}
  for _, id in ipairs(in_turn) do named[#named + 1] = quote(own_id(s, id)) end
  append_event(s, '{"type":"turn_started","session_id":"' .. last_sid .. '","turn":"' .. s.prefix .. run.fence ..
    '","fence":' .. run.fence .. ',"messages":[' .. table.concat(named, ',') ..
    ((journal.began or '0') ~= '0' and journal.began ~= run.fence and '],"continues":"' .. s.prefix .. int(tonumber(journal.began) or 0) .. '","keeps":' .. int(tonumber(journal.keeps) or 0) .. '}' or ']}'))
end
for _, id in ipairs(lost) do call('LREM', s.active, 1, id) end -- the newest first, as in active
for i = #ending, 1, -1 do -- the oldest first
  local id, ends, msg, unique = ending[i].id, ending[i].ends, ending[i].msg, ending[i].unique
  local outcome = '{"type":"turn_ended","status":"' .. ends.status .. '","session_id":"' .. last_sid .. '","turn":"' .. s.prefix .. run.fence ..
    '","fence":' .. run.fence .. ',"messages":[' .. quote(own_id(s, id)) .. '],"error":"' .. ends.why ..
    (ends.status == 'failed' and '","code":"worker_died"}' or '"}')
  call('LREM', s.active, 1, id)
  archive(s, id, msg, unique, ends.why, outcome, now)
  call('HSET', s.run, 'unsaid', run.fence .. ' ' .. id)
  count_archived(s, 1)
  pcall('HDEL', s.followups, own_id(s, id))
  keep_promises(s, {ending[i]}, outcome, now)
  append_event(s, outcome)
end
for _, b in ipairs(back) do
  requeue_message(s, b.id)
  if b.again > 0 then pcall('HINCRBY', s.task .. b.id, 'redelivered', 1) end
  if b.died > 0 then call('HSET', s.task .. b.id, 'deaths', b.died, 'died', with_fence(b.fences, run.fence)) end
end
if #in_active > 0 or dead then call('DEL', s.lease) end
if verdict or given_up then call('DEL', s.journal) end
if dead and rotated and not ends then leave_conversation(s) end
if dead or verdict then close_question(s, now) end
if begun and not dead then call('HSET', s.run, 'hold', '') end -- a message of it may run again
-- A higher count invalidates the agent's state of a rolled back turn, as after an undo.
if begun and run.rollback == run.fence then entries = entries + 1 end
count_processed(s, tonumber(run.done) or 0)
if crashed or excused then store_interruption(s, mark) end
if crashed then call('HSET', s.resume, 'crashes', with_fence(mark.crashes, run.fence .. (journal.progress == run.fence and '+' or ''))) end
forward(s, due, now) -- delayed tasks join the queue
if gone > 0 then call('LTRIM', s.pending, 0, -1 - gone) end -- ids without a task

-- 9. Nothing can run now: the session is released again.
if not first or waits then
  call('DEL', s.sentinel)
  call('HSET', s.run, 'token', '', 'phase', 'idle', 'done', '0', 'entries', int(entries))
  if crashed and crash_suspends and not mark.suspended then call('HSET', s.resume, 'suspended', '1', 'carried', mark.interruptions) end
  local at = waits or next_at(s, run.hold, now)
  if at and at <= now then return again{} end
  if at then return wait{at = at} end
  return empty{}
end

-- 10. The transcript. A suspended session begins a new one, under the same queue and lock. If only
-- a crash suspended it, its interruptions are still counted: its message may be the one that kills
-- workers.
local reset, resumed, marked_at, dropped = '', '', mark.marked_at or now, record.dropped
if ends then
  sid = last_sid
elseif mark.suspended or crashed and crash_suspends then
  sid, reset, dropped = false, 'suspended', ''
  call('DEL', s.resume)
  forget_work(s)
  call('HDEL', s.record, 'title', 'title_by')
  forget_notes(s)
  local carried = mark.carried or not mark.suspended and mark.interruptions
  if carried then call('HSET', s.resume, 'interruptions', carried, 'runs', mark.runs) end
elseif mark.pending and not (dead and rotated) then
  resumed = mark.reason ~= '' and mark.reason or 'restart_timeout'
end
sid = sid or fresh_sid
if sid ~= run.sid then entries = 0 end

-- 11. The turn begins.
local ids, messages = take(s, group, now)
if not ordinary then
  for _, t in ipairs(group) do pcall('HDEL', s.followups, own_id(s, t.id)) end
end
local fence = begin(s, not run.fence, math.max(tonumber(run.fence) or 0, tonumber(record.fence) or 0), sid, ids, entries, record.created_at)
if bound ~= (record.agent or DEFAULT_AGENT) then call('HSET', s.record, 'agent', bound) end
if ends then
  call('HSET', s.run, 'ending', fence)
  if rotated then call('HSET', s.record, 'session_id', run.rotated) end
elseif rotated then
  call('HSET', s.run, 'rotated', '')
end
if belongs(s, journal, first.id) and call('EXISTS', s.journal) == 1 then
  call('HSET', s.journal, 'fence', fence)
elseif journal.origin then
  call('UNLINK', s.journal)
end
local routed = promise_all(s, group)
if not ordinary or crashed or excused or routed or (run.special or '') ~= '' then
  call('HSET', s.run, 'special', (routed or call('EXISTS', s.resume, s.journal) > 0) and '1' or '')
end
if (run.reset or '') ~= reset or (run.resume or '') ~= resumed then call('HSET', s.run, 'reset', reset, 'resume', resumed) end
local carries, began, keeps = carries_on(s, ends, fence)
return turn{now = now, fence = fence, sid = sid, entries = entries, dropped = notes_record(s, dropped), messages = messages,
  reset = reset, resume = resumed, mark_age = now - marked_at, agent = bound, carries = carries, began = began, keeps = keeps}

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
-- KEYS full: processed processed_day archived failed failed_day stopped owed outbox deliveries state
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
local run = fields(s.run, 'phase', 'fence', 'sid', 'entries', 'done', 'rotated', 'special')
local record = fields(s.record, 'session_id', 'fence', 'created_at', 'dropped', 'agent')
if (record.agent or DEFAULT_AGENT) ~= agent or run.fence == nil or record.fence == nil or (run.phase or 'idle') ~= 'idle' or (run.done or '0') ~= '0' or (run.rotated or '') ~= ''
  or (run.special or '') ~= '' or (record.dropped or '') ~= '' then
  return false
end
-- A session that never had an owner has none of the keys that only owners write.
if (run.fence or record.fence) and call('EXISTS', s.paused, s.scheduled, s.active, s.followups, s.resume, s.journal) ~= 0
  or not (run.fence or record.fence) and call('EXISTS', s.paused, s.scheduled, s.active) ~= 0 then
  return false
end
local set = call('SET', s.sentinel, s.token, 'NX', 'PX', ttl)
if not set or set.err then return false end
local id, msg, seen, redelivered, unique_key = take_ordinary(s)
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
local run = fields(s.run, 'token', 'fence', 'phase', 'ids', 'stop', 'interrupt', 'sid', 'entries', 'hold', 'reset', 'resume', 'done', 'rotated', 'rollback', 'seq', 'special', 'survived', 'doubted', 'other_agent', 'ending', 'steer', 'throttled')
local record = fields(s.record, 'session_id', 'fence', 'created_at', 'dropped', 'agent')
local sid, entries = record.session_id, tonumber(run.entries) or 0
local turn = begun(run) -- it has not ended, and the messages in active are its
run.throttled = turn and of_turn(run, run.throttled) or ''

-- A session keeps its agent: one that has had a turn without a name has DEFAULT_AGENT. A turn keeps the one that
-- it began with.
local other = turn and of_turn(run, run.other_agent) or ''
local bound = other ~= '' and other or record.agent or record.fence and DEFAULT_AGENT or agent

-- A turn is begun to write its end. If its worker dies then, the next claim writes it.
local ends, ending = ends_as(run)

-- 1. The present owner keeps the session. A repeated claim returns the same result.
local owner = call('GET', s.sentinel)
if owner == s.token and run.token == s.token then
  local carries, began, keeps = carries_on(s, run.fence)
  local ids = cjson.decode(run.ids)
  return turn{now = now, fence = tonumber(run.fence), sid = run.sid, entries = entries, dropped = notes_record(s, record.dropped),
    messages = message_records(s, ids, now), reset = of_turn(run, run.reset), resume = of_turn(run, run.resume), agent = bound,
    carries = carries, began = began, keeps = keeps, ends = ends, throttled = run.throttled}
end
if owner then return held{left = call('PTTL', s.sentinel)} end

-- 2. Who may claim it, and when. Any worker may end a turn, also of a paused queue: no agent runs.
if ends == '' then
  local name = ' ' .. bound .. ' '
  if not string.find(serves, name, 1, true) and call('EXISTS', s.pending, s.active, s.scheduled, s.retry) > 0 then
    local missing = elsewhere ~= '' and not string.find(elsewhere, name, 1, true)
    if missing then call('HSET', s.record, 'needs', bound .. ' ' .. int(now)) end
    return other{now = now, agent = bound, missing = missing and 1 or 0}
  end
  local till = parked_until(run)
  if till and till > now and call('EXISTS', s.active) == 1 then return wait{at = till} end
end

-- 3. Most sessions are ordinary: they have none of these keys. In the others, in_active has the
-- newest first, and due are due delayed tasks. A dead sender's /stop is finished first.
local ordinary = not turn and call('EXISTS', s.paused, s.active, s.scheduled, s.retry, s.resume, s.followups, s.journal, s.stopped) == 0
local mark, in_active, due, journal = {reason = '', interruptions = 0, runs = 0}, {}, {}, {}
if not ordinary then
  if ends == '' and call('EXISTS', s.paused) == 1 then return paused{} end
  if call('EXISTS', s.stopped) == 1 then
    local batch, more = stopped_batch(s, s.stopped, stop_batch)
    call('ZCARD', s.archived)
    archive_stopped(s, batch, now)
    if #batch > 0 then call('HSET', s.run, 'unsaid', (run.fence or '0') .. ' ' .. batch[#batch].id) end
    mark_stopping(s, more)
    return again{dead = now}
  end
  mark, in_active, due = load_mark(s), call('LRANGE', s.active, 0, -1), due_tasks(s, now)
  journal = fields(s.journal, 'fence', 'origin', 'closed', 'progress')
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
      local t = place[id] and load_task(s, id)
      if t and t.msg and not t.too_long then
        group[#group + 1] = t
        place[id] = false
      end
    end
  end
  for _, id in ipairs(in_active) do
    if place[id] then
      local theirs = leased(s, id, now)
      if theirs then return wait{at = theirs} end
      local there = call('HEXISTS', s.task .. id, 'msg') == 1
      strays[#strays + 1] = there and id or nil
      lost[#lost + 1] = not there and id or nil
    end
  end
  if #strays > 0 or #lost > 0 or turn and #group == 0 then
    call('LLEN', s.pending)
    call('DEL', s.lease) -- the first write frees memory; none is live
    for _, id in ipairs(lost) do call('LREM', s.active, 1, id) end
    if turn and #group == 0 then
      call('DEL', s.journal)
      close_question(s, now)
      call('HSET', s.run, 'phase', 'idle')
    end
    call('HSET', s.run, 'special', '1') -- for what a lost record knew
    for _, id in ipairs(strays) do
      requeue_message(s, id)
      pcall('HINCRBY', s.task .. id, 'redelivered', 1)
    end
    return again{dead = 0}
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
  if doubts(s, run, ttl) then return held{left = tonumber(ttl)} end
  end_unwritten(s, run, group, ends, now, shown)
  return again{dead = now}
end
if dead and ends == '' and run.phase == 'running' and survived then
  excused = interrupt(mark, run.fence, LEASE_LOST, now, false)
elseif dead and ends == '' and told and not survived then
  local progressed = journal.progress == run.fence
  crashed = run.phase == 'running' and interrupt(mark, run.fence, 'crash', now, stuck_limit, progressed)
  if run.phase == 'starting' or crashed and not progressed then died = (tonumber(call('HGET', s.task .. group[1].id, 'deaths')) or 0) + 1 end
  if crashed and mark.suspended then
    ends = 'given up: its worker died in ' .. (mark.interruptions < stuck_limit and mark.runs or mark.interruptions) .. ' turns in a row'
  elseif died >= stuck_limit then
    ends = 'given up: its worker died ' .. died .. ' times'
  end
  if (ends ~= '' or crashed and crash_suspends) and doubts(s, run, ttl) then return held{left = tonumber(ttl)} end
  if ends ~= '' and #group > 1 and not journal.closed and other == '' and (run.rotated or '') == '' then
    call('LLEN', s.pending)
    call('DEL', s.journal)
    for i = #group, 1, -1 do requeue_message(s, group[i].id, 'deaths', stuck_limit - 1) end
    if crashed then
      mark.interruptions, mark.runs, mark.suspended = stuck_limit - 1, 0, false
      store_interruption(s, mark)
    end
    close_question(s, now)
    call('HSET', s.run, 'phase', 'idle')
    return again{dead = 0}
  end
end

-- 6. Else the next turn, from the head of the queue.
local first = group[1]
if not turn then first, gone = head(s, due) end
if first and first.too_long and not turn then
  if #due == 0 and gone == 0 then -- these come first
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
    return again{dead = now}
  end
  first = false
end
if first and not turn then group, waits = gather(s, first, gone, now, turn_limits) end
if #due == 0 and (waits or not first and gone == 0) then
  waits = waits or next_at(s, now)
  if waits then return wait{at = waits} end
  return empty{}
end
if #due > 0 then call('LLEN', s.pending) end -- a key of a wrong type fails before the first write
check_routes(s, group)

-- 7. The session is claimed. All writes come after this one.
if not call('SET', s.sentinel, s.token, 'NX', 'PX', ttl) then return held{left = tonumber(ttl)} end
count_processed(s, tonumber(run.done) or 0)
forward(s, due, now) -- delayed tasks join the queue
if gone > 0 then call('LTRIM', s.pending, 0, -1 - gone) end -- ids without a task

-- 8. Nothing can run now: the session is released again.
if not first or waits then
  call('DEL', s.sentinel)
  call('HSET', s.run, 'token', '', 'phase', 'idle', 'done', '0')
  local at = waits or next_at(s, now)
  if at and at <= now then return again{dead = 0} end
  if at then return wait{at = at} end
  return empty{}
end

-- 9. A dead owner's run ends. If its start is not in the stream yet, write it now.
if dead then
  if not shown then append_event(s, dead_event(s, run, cjson.decode(run.ids))) end
  call('DEL', s.lease)
  for _, t in ipairs(group) do
    pcall('HINCRBY', s.task .. t.id, 'redelivered', 1)
    t.redelivered = (tonumber(t.redelivered) or 0) + 1
    if run.phase == 'starting' and died > 0 then -- in each, as the first may leave the turn
      call('HSET', s.task .. t.id, 'deaths', died, 'died', with_fence(call('HGET', s.task .. t.id, 'died'), run.fence))
    end
  end
  close_question(s, now)
  if crashed or excused then store_interruption(s, mark) end
  if crashed then call('HSET', s.resume, 'crashes', with_fence(mark.crashes, run.fence .. (journal.progress == run.fence and '+' or ''))) end
end

-- 10. The transcript: a turn keeps its own. A suspended session begins a new one, under the same queue and lock. If only
-- a crash suspended it, its interruptions are still counted: its message may be the one that kills
-- workers.
local reset, resumed, dropped, rotated = '', '', record.dropped, (run.rotated or '') ~= '' and run.rotated
local keeps_log = turn or belongs(s, journal, first.id)
if turn then sid = run.sid end
if ends == '' and (mark.suspended or crashed and crash_suspends) then
  sid, rotated, reset, dropped, keeps_log = turn and rotated, false, 'suspended', '', keeps_log and journal.closed
  call('DEL', s.resume)
  call('HDEL', s.record, 'title', 'title_by')
  call('HDEL', s.run, 'unsaid')
  forget_notes(s)
  if not mark.suspended then call('HSET', s.resume, 'interruptions', mark.interruptions, 'runs', mark.runs) end
elseif ends == '' then
  if turn and not shown then reset = of_turn(run, run.reset) end
  if mark.pending then resumed = mark.reason ~= '' and mark.reason or 'restart_timeout' end
end
sid = sid or fresh_sid
if sid ~= run.sid then entries = 0 end

-- 11. The turn begins, or its next run.
local ids, messages = take(s, group, now, turn)
if not ordinary then
  for _, t in ipairs(group) do pcall('HDEL', s.followups, own_id(s, t.id)) end
end
local fence = begin(s, not run.fence, math.max(tonumber(run.fence) or 0, tonumber(record.fence) or 0), sid, ids, entries, record.created_at)
if other ~= '' then
  call('HSET', s.run, 'other_agent', fence .. ' ' .. other)
elseif bound ~= (record.agent or DEFAULT_AGENT) then
  call('HSET', s.record, 'agent', bound)
end
if ends ~= '' then call('HSET', s.run, 'ending', fence .. ' ' .. ends) end
if turn and rotated then
  call('HSET', s.record, 'session_id', rotated)
elseif (run.rotated or '') ~= '' then
  call('HSET', s.run, 'rotated', '')
end
if turn and run.steer == run.fence then call('HSET', s.run, 'steer', fence) end
if run.throttled ~= '' then call('HSET', s.run, 'throttled', fence .. ' ' .. run.throttled) end
if journal.fence and keeps_log then
  call('HSET', s.journal, 'fence', fence)
elseif journal.fence then
  call('UNLINK', s.journal)
end
local routed = promise_all(s, group)
if not ordinary or routed or (run.special or '') ~= '' then
  call('HSET', s.run, 'special', (routed or other ~= '' or call('EXISTS', s.resume, s.journal) > 0) and '1' or '')
end
if reset ~= '' then call('HSET', s.run, 'reset', fence .. ' ' .. reset) end
if resumed ~= '' then call('HSET', s.run, 'resume', fence .. ' ' .. resumed) end
local carries, began, keeps = carries_on(s, fence)
return turn{now = now, fence = fence, sid = sid, entries = entries, dropped = notes_record(s, dropped), messages = messages,
  reset = reset, resume = resumed, agent = bound, carries = carries, began = began, keeps = keeps, ends = ends, throttled = run.throttled}

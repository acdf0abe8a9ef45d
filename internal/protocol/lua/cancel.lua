-- cancel: ends one message, and no other waiting one. If it waits or is delayed, it becomes a dead
-- letter. If it is part of a turn, and turn_too is set, the end of that turn is requested, as by
-- stop; but one of several messages of a turn that waits and has done nothing only leaves the turn. The
-- queue is searched from both ends: only a message with more than 1,000 on either side costs more, one
-- pass of the queue.
--
-- KEYS sentinel run followups events journal pending active scheduled retry processed processed_day archived failed failed_day stopped
-- KEYS owed outbox deliveries audit call
-- ARGS
--   s.task               prefix of the session's task hashes
--   s.by                 who does it, '' if unknown: see audit
--   s.prefix             of task ids
--   s.events_cap int     see append_event
--   s.short number       bytes
--   s.large_bytes int
--   s.longest number     how many bytes a task's msg may have
--   id                   of the task
--   turn_too flag        also if it is part of a turn
--   deadline number      do nothing after this ms: the sender has given up
-- RETURNS
--   'taken' now:int wake:flag      it is a dead letter now; wake: 1 if the rest of the queue may be claimed sooner now
--   'ending' now:int wake:flag     the end of its turn is requested; wake: 1 if the turn has no owner
--   'running'             it is part of a turn: nothing is written
--   'ended' state result  the task's, before this call
--   'unknown'             there is no such task
--   'late'

local SEARCHED = 1000 -- ids at either end of the queue

local now = now_ms()
local kept = call('GET', s.call)
local ends = string.match(kept or '', '^ending (%d)$')
if ends then return ending{now = now, wake = tonumber(ends)} end
if kept then return taken{now = now, wake = tonumber(string.match(kept, '%d$'))} end
if now > deadline then return late{} end
local t = fields(s.task .. id, 'state', 'result', 'quiet')
if not t.state then return unknown{} end
if t.state == 'completed' or t.state == 'archived' then return ended{state = t.state, result = t.result or ''} end

local run = fields(s.run, 'worker', 'fence', 'phase', 'ids', 'stop')
local owner, leaves = call('GET', s.sentinel), false -- the turn's other messages, if it leaves the turn
if t.state == 'active' then
  local ok, ids = try(cjson.decode, run.ids or '')
  local part, others = false, {}
  if ok and type(ids) == 'table' and begun(run) then
    for _, other in ipairs(ids) do
      if other == id then part = true else others[#others + 1] = other end
    end
  end
  -- A turn of a stock asynq.Server cannot be ended.
  if not turn_too or not part then return running{} end
  leaves = run.phase == 'parked' and #others > 0 and call('EXISTS', s.journal) == 0 and others
end
if t.state == 'active' and not leaves then
  call('HDEL', s.followups, '') -- see below
  if run.stop ~= run.fence then
    call('HSET', s.run, 'stop', run.fence) -- also of a dead owner: the next claim reads it
    if owner then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"stop","token":"' .. owner .. '","fence":' .. run.fence .. '}') end
  end
  local wake = owner and 0 or 1
  keep_result(s, 'ending', wake)
  audit(s, 'cancel', own_id(s, id), now)
  return ending{now = now, wake = wake}
end

local msg, unique = load_short(s, id)
local route = route_of(s, id)
local from = call('LPOS', s.pending, id, 'RANK', -1, 'MAXLEN', SEARCHED) and -1 or 1
call('ZCARD', s.archived)
call('ZCARD', s.scheduled)
call('ZCARD', s.retry)
call('LLEN', s.stopped)
call('LLEN', s.active)

-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s.followups, '')
if leaves then
  call('LREM', s.active, 1, id)
  call('HSET', s.run, 'ids', cjson.encode(leaves))
elseif call('ZREM', s.scheduled, id) == 0 and call('ZREM', s.retry, id) == 0
  and call('LREM', s.stopped, 1, id) == 0 then -- a /stop has found it waiting
  call('LREM', s.pending, from, id)
end
archive_as_stopped(s, {id = id, msg = msg, unique = unique, route = route}, now)
local wake = t.quiet and not owner and call('LLEN', s.pending) > 0 and 1 or 0
keep_result(s, 'taken', wake)
audit(s, 'cancel', own_id(s, id), now)
return taken{now = now, wake = wake}

-- Code generated from ../lua/look.lua by go generate; DO NOT EDIT.
--
-- look: returns whether a session can be claimed. Writes nothing. It fails if a key that a claim
-- reads has a wrong type: such a session would be woken again and again.
--
-- KEYS sentinel run record resume journal pending active lease paused scheduled retry completed archived stopped
-- ARGS
--   s.task       prefix of the session's task hashes
-- RETURNS
--   result: now:int state n:int
--     state: 'held' (n = ms left), 'paused', 'ready' (n = 1 after a dead owner, else 0), 'wait' (n = until,
--     ms) or 'empty'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_resume, s_journal, s_pending, s_active, s_lease, s_paused, s_scheduled, s_retry, s_completed, s_archived, s_stopped, s_task = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], ARGV[1]
local function fields_1(key)
  local v = call('HMGET', key, 'phase', 'fence', 'hold', 'stop', 'rollback', 'interrupt', 'ending')
  return {phase = v[1], fence = v[2], hold = v[3], stop = v[4], rollback = v[5], interrupt = v[6], ending = v[7]}
end

-- begun(run) returns whether a turn has begun and not ended. Without a sentinel it is parked, or its owner died.
local function begun(run) return run.fence and (run.phase == 'starting' or run.phase == 'running' or run.phase == 'parked') end

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


-- ready(dead) is the result for a session that can be claimed.
local function ready(dead)
  for _, hash in ipairs{s_run, s_record, s_resume, s_journal} do call('HLEN', hash) end
  for _, list in ipairs{s_pending, s_stopped} do call('LLEN', list) end
  for _, set in ipairs{s_scheduled, s_retry, s_completed, s_archived} do call('ZCARD', set) end
  return {now_ms(), 'ready', dead}
end

local now = now_ms()
if call('EXISTS', s_sentinel, s_pending, s_active, s_scheduled, s_retry, s_stopped) == 0 then return {now, 'empty', 0} end
local left = call('PTTL', s_sentinel)
if left >= 0 then return {now, 'held', left} end
local run = fields_1(s_run)
if ends_as(run) ~= '' then return ready(run.phase ~= 'parked' and 1 or 0) end -- also of a paused queue
if call('EXISTS', s_paused) == 1 then return {now, 'paused', 0} end
for _, id in ipairs(call('LRANGE', s_active, 0, -1)) do
  local theirs = leased(s_lease, s_task, id, now)
  if theirs then return {now, 'wait', theirs} end
end
local at, active = parked_until(run), call('EXISTS', s_active) == 1
if at and not active then return ready(0) end -- its messages are gone
if not at and active then return ready(1) end
at = at and math.max(at, now) or next_at(s_pending, s_retry, s_run, s_scheduled, s_task, now)
if not at and call('EXISTS', s_stopped) == 1 then at = now end -- even if run's stopping was lost
if not at then return {now, 'empty', 0} end
if at > now then return {now, 'wait', at} end
return ready(0)

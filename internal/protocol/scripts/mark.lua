-- Code generated from ../lua/mark.lua by go generate; DO NOT EDIT.
--
-- mark: prepares the interruption of a turn, because its worker's drain timeout is over. A running
-- turn gets its resume mark before it is interrupted. A turn without an agent is kept from starting
-- one, and needs no mark. If the turn's end was requested, it is not parked, and needs no mark
-- either.
--
-- KEYS sentinel run resume journal
-- ARGS
--   s.token
--   s.fence int
--   ttl int                the sentinel's, ms
--   reason
--   stuck_limit number     interruptions in a row that suspend the session
--   age number             for how long the worker has run, ms
--   progressed flag        this run has ended a tool that no earlier one had
-- RETURNS
--   'marked'
--   'suspended'            the session was suspended before
--   'starting'
--   'requested'            the turn's end was requested
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_resume, s_journal, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'phase', 'stop', 'rollback', 'interrupt', 'ending')
  return {token = v[1], fence = v[2], phase = v[3], stop = v[4], rollback = v[5], interrupt = v[6], ending = v[7]}
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

local ttl, reason, stuck_limit, age, progressed = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
local now, mark = now_ms(), load_mark(s_resume)
progressed = progressed or call('HGET', s_journal, 'progress') == s_fence
call('PEXPIRE', s_sentinel, ttl)
if ends_as(run) ~= '' then return {'requested'} end
if run.phase ~= 'running' then
  call('HSET', s_run, 'nostart', s_fence)
  return {'starting'}
end
if mark.suspended and mark.fence ~= s_fence then return {'suspended'} end
-- Else it is a repetition.
if interrupt(mark, s_fence, reason, now, stuck_limit, progressed, now - age) then store_interruption(s_resume, s_run, mark) end
return {'marked'}

-- The turn: its owner, its beginning, and requests to it. run is the run record, with the fields
-- that a function uses.

-- DEFAULT_AGENT is the agent of sessions that have no other one: internal/protocol/agents.
local DEFAULT_AGENT = 'default'

-- begin_turn(s, fence, ids, at, ...) writes the run record of a turn that begins. The last
-- arguments are further fields. Fields that contain a fence (stop, interrupt, seq) need no
-- clearing. Redis searches a small hash from its beginning, so the fields that the next
-- finish reads come first.
local function begin_turn(s, fence, ids, at, ...)
  return call('HSET', s.run, 'fence', fence, 'ids', ids, 'started_at', at, ...)
end

-- set_idle(s, warm, ...) writes the run record of a session that finish releases. Most sessions are
-- idle, so it deletes fields that only a turn needs. The name of a worker that keeps agents warm
-- stays: senders notify it of the next message first. The last arguments are further fields.
local function set_idle(s, warm, ...)
  call('HSET', s.run, 'phase', 'idle', ...)
  if warm == '1' then
    call('HDEL', s.run, 'token', 'started_at', 'done')
  else
    call('HDEL', s.run, 'token', 'started_at', 'done', 'worker')
  end
end

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s, run)
  return run.token == s.token and run.fence == s.fence and owns(s.sentinel, s.token)
end

-- earlier_result(s, run) returns the result of the same request if it was sent before and its reply
-- was lost, or false.
local function earlier_result(s, run)
  local mine = s.token .. ' ' .. s.fence .. ' '
  if run.last and string.sub(run.last, 1, #mine) == mine then return string.sub(run.last, #mine + 1) end
  return false
end

-- confirm_claim(s, run) records that the owner knows of this turn. Until then the owner's death
-- does not count, because the reply to its claim may have been lost. A batch of events records it,
-- too.
local function confirm_claim(s, run)
  if string.match(run.seq or '', '^(%d+) ') ~= s.fence then call('HSET', s.run, 'seq', s.fence .. ' 0') end
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

-- begun(run) returns whether a turn has begun and not ended. Without a sentinel it is parked, or its owner died.
local function begun(run) return run.fence and (run.phase == 'starting' or run.phase == 'running' or run.phase == 'parked') end

-- of_turn(run, value) returns what stands after the fence in the value of one of run's fields, or '' if it is another
-- turn's.
local function of_turn(run, value)
  local of, what = string.match(value or '', '^(%d+) (.*)$')
  return of == run.fence and what or ''
end

-- ends_as(run) returns how the turn that has not ended is to end, or '', and whether it was begun only for that.
local function ends_as(run)
  if not begun(run) then return '', false end
  local how = of_turn(run, run.ending)
  if how ~= '' then return how, true end
  return requested(run, run.fence), false
end

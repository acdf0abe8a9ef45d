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

-- ready(dead) is the result for a session that can be claimed.
local function ready(dead)
  for _, hash in ipairs{s.run, s.record, s.resume, s.journal} do call('HLEN', hash) end
  for _, list in ipairs{s.pending, s.stopped} do call('LLEN', list) end
  for _, set in ipairs{s.scheduled, s.retry, s.completed, s.archived} do call('ZCARD', set) end
  return result{now = now_ms(), state = 'ready', n = dead}
end

local now = now_ms()
if call('EXISTS', s.sentinel, s.pending, s.active, s.scheduled, s.retry, s.stopped) == 0 then return result{now = now, state = 'empty', n = 0} end
local left = call('PTTL', s.sentinel)
if left >= 0 then return result{now = now, state = 'held', n = left} end
local run = fields(s.run, 'phase', 'fence', 'hold', 'stop', 'rollback', 'interrupt', 'ending')
if ends_as(run) ~= '' then return ready(run.phase ~= 'parked' and 1 or 0) end -- also of a paused queue
if call('EXISTS', s.paused) == 1 then return result{now = now, state = 'paused', n = 0} end
for _, id in ipairs(call('LRANGE', s.active, 0, -1)) do
  local theirs = leased(s, id, now)
  if theirs then return result{now = now, state = 'wait', n = theirs} end
end
local at, active = parked_until(run), call('EXISTS', s.active) == 1
if at and not active then return ready(0) end -- its messages are gone
if not at and active then return ready(1) end
at = at and math.max(at, now) or next_at(s, now)
if not at and call('EXISTS', s.stopped) == 1 then at = now end -- even if run's stopping was lost
if not at then return result{now = now, state = 'empty', n = 0} end
if at > now then return result{now = now, state = 'wait', n = at} end
return ready(0)

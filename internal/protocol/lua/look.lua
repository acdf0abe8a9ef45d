-- look: returns whether a session can be claimed. Writes nothing.
--
-- KEYS sentinel run pending active lease paused scheduled retry stopped
-- ARGS
--   s.task       prefix of the session's task hashes
-- RETURNS
--   result: now state n
--     state: 'held' (n = ms left), 'paused', 'ready' (n = 1 after a dead owner, else 0), 'wait' (n = until,
--     ms) or 'empty'

local now = now_ms()
if call('EXISTS', s.sentinel, s.pending, s.active, s.scheduled, s.retry, s.stopped) == 0 then return result{now = now, state = 'empty', n = 0} end
local left = call('PTTL', s.sentinel)
if left >= 0 then return result{now = now, state = 'held', n = left} end
if call('EXISTS', s.paused) == 1 then return result{now = now, state = 'paused', n = 0} end
if call('EXISTS', s.active) == 1 then
  for _, id in ipairs(call('LRANGE', s.active, 0, -1)) do
    local theirs = leased(s, id, now)
    if theirs then return result{now = now, state = 'wait', n = theirs} end
  end
  return result{now = now, state = 'ready', n = 1}
end
local at = next_at(s, call('HGET', s.run, 'hold'), now)
if not at and call('EXISTS', s.stopped) == 1 then at = now end -- even if run's stopping was lost
if not at then return result{now = now, state = 'empty', n = 0} end
if at > now then return result{now = now, state = 'wait', n = at} end
return result{now = now, state = 'ready', n = 0}

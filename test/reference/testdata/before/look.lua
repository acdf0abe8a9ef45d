-- look: may this session be claimed? Reads only.
--
-- Answers {now, what, n}: 'held' (n = ms left), 'paused', 'ready' (n = 1 after a
-- dead owner, else 0), 'wait' (n = until, ms), or 'empty'.

local now = now_ms()
if call('EXISTS', sentinel, pending, active, scheduled, retry, stopped) == 0 then return {now, 'empty', 0} end
local left = call('PTTL', sentinel)
if left >= 0 then return {now, 'held', left} end
if call('EXISTS', paused) == 1 then return {now, 'paused', 0} end
if call('EXISTS', active) == 1 then
  for _, id in ipairs(call('LRANGE', active, 0, -1)) do
    local theirs = leased(id, now)
    if theirs then return {now, 'wait', theirs} end
  end
  return {now, 'ready', 1}
end
local at = next_at(call('HGET', run, 'hold'), now)
if not at and call('EXISTS', stopped) == 1 then at = now end -- whatever became of run's stopping
if not at then return {now, 'empty', 0} end
if at > now then return {now, 'wait', at} end
return {now, 'ready', 0}

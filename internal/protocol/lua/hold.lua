-- hold: renews what sessions hold of limits, or releases it. A hold with another token stays: another owner has it.
--
-- KEYS holds ends running limits place waits
-- ARGS
--   s.queue          prefix of the agents' queues
--   s.held           prefix of those that are held back
--   s.bell           prefix of the agents' bells
--   ttl number       of the holds from now, ms. 0: release them
--   sessions list    at most 1,000
--   tokens list      of their holds
-- RETURNS
--   result: kept:int    how many of them the token has

local now, kept = now_ms(), 0
for i, session in ipairs(sessions) do
  local hold = call('HGET', s.holds, session)
  if hold and string.match(hold, '^%S+') == tokens[i] then
    kept = kept + 1
    call('ZREM', s.ends, session) -- first: a full Redis lets a script that has written go on
    if ttl > 0 then call('ZADD', s.ends, int(now + ttl), session) else end_hold(s, session) end
  end
end
if ttl == 0 then let_held_on(s, now) end
return result{kept = kept}

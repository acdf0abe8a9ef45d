-- survive: records that an owner lives that has lost its lease and wound down its turn. So the loss
-- counts neither as a death nor as an interruption. If a claim has counted it already, the count is
-- taken back; a message that was given up, or a suspension, stays.
--
-- KEYS sentinel run resume
-- ARGS
--   s.task       prefix of the session's task hashes
--   s.token      of the lost claim
--   s.fence int  of its last turn
--   ids list     of the turn's tasks
-- RETURNS
--   result: now:int free:flag     free: 1 if this has released the session. Else its sentinel expired
--     earlier, and reap finds it

local run = fields(s.run, 'token', 'fence', 'phase', 'survived')
-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s.run, '')
if run.token == s.token and run.fence == s.fence and run.phase ~= 'idle' then
  local owner = call('GET', s.sentinel)
  local freed = s.fence .. ' freed' -- for a repetition
  local free = owner == s.token or owner == IN_DOUBT or not owner and run.survived == freed
  call('HSET', s.run, 'survived', free and freed or s.fence)
  if free and owner then call('DEL', s.sentinel) end
  return result{now = now_ms(), free = free and 1 or 0}
end

local mark, tasks = load_mark(s), {}
for _, id in ipairs(ids) do
  local t = fields(s.task .. id, 'state', 'deaths', 'died')
  local rest = (t.state == 'pending' or t.state == 'active') and without_fence(t.died, s.fence)
  if rest then tasks[#tasks + 1] = {id = id, deaths = math.max((tonumber(t.deaths) or 1) - 1, 0), rest = rest} end
end
for _, t in ipairs(tasks) do call('HSET', s.task .. t.id, 'deaths', int(t.deaths), 'died', t.rest) end
local rest = not mark.suspended and without_fence(mark.crashes, s.fence)
local progressed = not mark.suspended and not rest and without_fence(mark.crashes, s.fence .. '+')
if rest or progressed then
  call('HSET', s.resume, 'crashes', rest or progressed, 'interruptions', int(math.max(mark.interruptions - (rest and 1 or 0), 0)),
    'runs', int(math.max(mark.runs - 1, 0)))
  if mark.fence == s.fence and mark.reason == 'crash' then call('HSET', s.resume, 'reason', LEASE_LOST) end
end
return result{now = now_ms(), free = 0}

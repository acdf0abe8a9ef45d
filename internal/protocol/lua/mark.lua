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

local run = fields(s.run, 'token', 'fence', 'phase', 'stop', 'rollback', 'interrupt', 'ending')
if not owned(s, run) then return lost{} end
local now, mark = now_ms(), load_mark(s)
progressed = progressed or call('HGET', s.journal, 'progress') == s.fence
call('PEXPIRE', s.sentinel, ttl)
if ends_as(run) ~= '' then return requested{} end
if run.phase ~= 'running' then
  call('HSET', s.run, 'nostart', s.fence)
  return starting{}
end
if mark.suspended and mark.fence ~= s.fence then return suspended{} end
-- Else it is a repetition.
if interrupt(mark, s.fence, reason, now, stuck_limit, progressed, now - age) then store_interruption(s, mark) end
return marked{}

-- promote: moves a turn from starting to running, before its agent is started.
--
-- KEYS sentinel run
-- ARGS
--   s.token
--   s.fence int
--   ttl int         the sentinel's, ms
-- RETURNS
--   'ok' steer:flag      1 if a message waits that is to be steered in
--   'refused' by    'stop', 'rollback', 'interrupt' or 'drain'
--   'lost'

local run = fields(s.run, 'token', 'fence', 'stop', 'rollback', 'interrupt', 'steer', 'nostart', 'seq')
if not owned(s, run) then return lost{} end
local request = requested(run, s.fence)
call('PEXPIRE', s.sentinel, ttl)
if request ~= '' then return refused{by = request} end
if run.nostart == s.fence then return refused{by = 'drain'} end
call('HSET', s.run, 'phase', 'running')
confirm_claim(s, run)
return ok{steer = run.steer == s.fence and 1 or 0}

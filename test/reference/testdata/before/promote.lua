-- promote: from starting to running, before the agent is started.
--
-- ARGV[4] sentinel's TTL, ms
--
-- Answers {'ok', 1 if a message waits that is to be steered in}, {'refused',
-- 'stop', 'rollback', 'interrupt' or 'drain'} or {'lost'}.

if not owned then return {'lost'} end
local asking, steer = asked()
local nostart = call('HGET', run, 'nostart') == fence
call('PEXPIRE', sentinel, ARGV[4])
if asking ~= '' then return {'refused', asking} end
if nostart then return {'refused', 'drain'} end
call('HSET', run, 'phase', 'running')
hear_of_owner()
return {'ok', steer and 1 or 0}

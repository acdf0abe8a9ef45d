-- promote: from starting to running, before the agent is started.
--
-- ARGV[4] sentinel's TTL, ms
--
-- Answers {'ok'}, {'refused', 'stop'} or {'lost'}.

if not owned() then return {'lost'} end
if asked() == 'stop' then return {'refused', 'stop'} end
call('PEXPIRE', sentinel, ARGV[4])
call('HSET', run, 'phase', 'running')
return {'ok'}

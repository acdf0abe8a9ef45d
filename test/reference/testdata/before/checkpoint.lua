-- checkpoint: what the running turn has done so far, should it be cut off.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] the partial, JSON
-- ARGV[6] its TTL, ms
--
-- Answers {'ok'} or {'lost'}.

if not owned then return {'lost'} end
call('PEXPIRE', sentinel, ARGV[4])
call('HSET', run, 'special', '1')
hear_of_owner() -- else a crash would leave this without a mark
call('SET', partial, ARGV[5], 'PX', ARGV[6])
pcall('HSET', record, 'updated_at', int(now_ms()))
return {'ok'}

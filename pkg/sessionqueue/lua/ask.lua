-- ask: the turn's agent asks the user for a permission, or does not any more.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] number of the question within the turn, from 1
-- ARGV[6] the question, JSON; '': it is withdrawn
--
-- Answers {'ok'} or {'lost'}.

if not owned then return {'lost'} end
call('PEXPIRE', sentinel, ARGV[4])
if ARGV[6] == '' then
  call('HDEL', run, 'question')
else
  call('HSET', run, 'question', fence .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
end
return {'ok'}

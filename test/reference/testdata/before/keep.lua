-- keep: what the turn's agent wants to find again in the session's next turns.
--
-- KEYS[last] the session's state
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] the state, JSON; '': there is none any more
-- ARGV[6] its TTL, ms
--
-- Answers {'ok'} or {'lost'}.

if not owned then return {'lost'} end
call('PEXPIRE', sentinel, ARGV[4])
if ARGV[5] == '' then
  call('DEL', KEYS[#KEYS])
else
  call('SET', KEYS[#KEYS], ARGV[5], 'PX', ARGV[6])
end
return {'ok'}

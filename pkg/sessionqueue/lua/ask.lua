-- ask: the turn's agent asks the user for a permission, or does not any more.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] number of the question within the turn, from 1
-- ARGV[6] the question, JSON; '': it is withdrawn
--
-- Answers {'ok', what the user has said to that question already, or ''} or {'lost'}.

if not owned then return {'lost'} end
local of, to, said = string.match(call('HGET', run, 'answered') or '', '^(%d+) (%d+) (%S+)')
if of ~= fence or to ~= ARGV[5] then said = '' end

call('PEXPIRE', sentinel, ARGV[4])
if ARGV[6] == '' then
  call('HDEL', run, 'question')
else
  call('HSET', run, 'question', fence .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
end
return {'ok', said}

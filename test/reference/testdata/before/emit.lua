-- emit: the next events of a turn.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] number of this batch within the turn, from 1
-- ARGV[6] limits of the event stream
-- ARGV[7...] events, JSON
--
-- Answers {'ok'} or {'lost'}. A batch that was written is not written again.

if not owned then return {'lost'} end
local at, seq = string.match(call('HGET', run, 'seq') or '', '^(%d+) (%d+)$') -- of which turn
call('XLEN', events)
call('PEXPIRE', sentinel, ARGV[4])
if at == fence and tonumber(seq) >= tonumber(ARGV[5]) then return {'ok'} end
call('HSET', run, 'seq', fence .. ' ' .. ARGV[5])
for i = 7, #ARGV do announce(run, events, ARGV[6], ARGV[i]) end
return {'ok'}

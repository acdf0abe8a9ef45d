-- ask: the turn's agent asks the user for a permission, or does not any more.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] which of the turn's questions, from 1
-- ARGV[6] the question, JSON; '': it is withdrawn
--
-- Answers {'ok', what the user has said to that question already, or '', the
-- question's number (0: it was never asked)} or {'lost'}. Numbers rise over the
-- session's life: an answer that comes late fits no later question.

if not owned then return {'lost'} end
local a = call('HMGET', run, 'questions', 'question', 'answered')
local last, of, nth, at = string.match(a[1] or '', '^(%d+) (%d+) (%d+) (%d+)$')
-- Workers of an older version count from 1 in each turn, and leave no last number.
last = math.max(tonumber(last) or 0, tonumber(string.match(a[2] or '', '^%d+ (%d+) ')) or 0)
nth = of == fence and tonumber(nth) or 0
local mine = tonumber(ARGV[5])
local number = 0
if mine == nth then
  number = last -- sent again, or withdrawn
elseif mine > nth and ARGV[6] ~= '' then
  number, at = last + 1, int(now_ms())
end
local by, to, said = string.match(a[3] or '', '^(%d+) (%d+) (%S+)')
if by ~= fence or tonumber(to) ~= number then said = '' end

call('PEXPIRE', sentinel, ARGV[4])
if mine < nth then return {'ok', '', 0} end -- a later question was asked since
if ARGV[6] == '' then
  call('HDEL', run, 'question')
else
  call('HSET', run, 'question', fence .. ' ' .. int(number) .. ' ' .. ARGV[6],
    'questions', int(number) .. ' ' .. fence .. ' ' .. ARGV[5] .. ' ' .. at)
end
return {'ok', said, number}

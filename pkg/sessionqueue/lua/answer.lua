-- answer: what the user says to the question of the turn that runs. The owner
-- learns of it at once, or by its next renewal.
--
-- ARGV[2] number of the question; '': whichever is asked
-- ARGV[3] 'allow', 'always' or 'deny'
-- ARGV[4] a name for this call, so that a repetition is known
--
-- Answers {'ok', number, question}, {'none'}: nothing is asked, {'other', number,
-- question}: that is what is asked, or {'answered'}: somebody was faster.

local r = call('HMGET', run, 'token', 'worker', 'fence', 'question', 'answered')
local fence, n, question = string.match(r[4] or '', '^(%d+) (%d+) (.*)$')
if not fence or fence ~= r[3] or not r[1] or r[1] == '' or call('GET', sentinel) ~= r[1] then return {'none'} end
if ARGV[2] ~= '' and ARGV[2] ~= n then return {'other', tonumber(n), question} end
-- A full Redis refuses a script until its first write, so that one frees.
call('HDEL', run, '')
local of, to, _, name = string.match(r[5] or '', '^(%d+) (%d+) (%S+) (.*)$')
if of == fence and to == n then
  if name ~= ARGV[4] then return {'answered'} end
else
  call('HSET', run, 'answered', fence .. ' ' .. n .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
end
call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"answer","token":"' .. r[1] .. '","fence":' .. fence ..
  ',"question":' .. n .. ',"answer":"' .. ARGV[3] .. '"}')
return {'ok', tonumber(n), question}

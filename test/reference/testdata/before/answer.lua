-- answer: what the user says to the question of the turn that runs. The owner
-- learns of it at once, or by its next renewal.
--
-- ARGV[2] number of the question; '': the one that the user sees
-- ARGV[3] 'allow', 'always' or 'deny'
-- ARGV[4] a name for this call, so that a repetition is known
-- ARGV[5] for how long a user may still see the question before it, ms
--
-- Answers {'ok', number, question}, {'none'}: nothing is asked, {'other', number,
-- question}: that is what is asked, {'new', number, question}: so it is, but the
-- user may not have seen it yet, or {'answered'}: somebody was faster.

local r = call('HMGET', run, 'token', 'worker', 'fence', 'question', 'answered', 'questions')
local fence, n, question = string.match(r[4] or '', '^(%d+) (%d+) (.*)$')
if not fence or fence ~= r[3] or not r[1] or r[1] == '' or call('GET', sentinel) ~= r[1] then return {'none'} end
if ARGV[2] ~= '' and ARGV[2] ~= n then return {'other', tonumber(n), question} end
local of, to, _, name = string.match(r[5] or '', '^(%d+) (%d+) (%S+) (.*)$')
local answered = of == fence and to == n
if ARGV[2] == '' and not answered and tonumber(n) > 1 then
  local last, _, _, at = string.match(r[6] or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if last == n and now_ms() - tonumber(at) < tonumber(ARGV[5]) then return {'new', tonumber(n), question} end
end
-- A full Redis refuses a script until its first write, so that one frees.
call('HDEL', run, '')
if answered then
  if name ~= ARGV[4] then return {'answered'} end
else
  call('HSET', run, 'answered', fence .. ' ' .. n .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
end
call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"answer","token":"' .. r[1] .. '","fence":' .. fence ..
  ',"question":' .. n .. ',"answer":"' .. ARGV[3] .. '"}')
return {'ok', tonumber(n), question}

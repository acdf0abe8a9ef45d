-- decide: stores the user's decision on a question of the running turn, or the value for which the turn
-- waits. The owner gets it at once, or with its next renewal. A turn that is parked for it may go on.
--
-- KEYS sentinel run journal outbox deliveries audit
-- ARGS
--   s.task           prefix of the session's task hashes
--   s.prefix         of task ids
--   number           of the question, or '' for the one that the user sees. A turn's fence and a blank
--     before it mean that turn only
--   decision         'allow', 'always', 'deny', or 'value'
--   key              of the wait that gets the value
--   value            JSON
--   proof            what the wait must have as its proof; '': it is not checked
--   name             of this call, to recognize its repetition
--   s.by             who decides, or '': unknown
--   only             the question that was checked: no other is decided; '': none was
--   settle number    for how long a user may still see the question before it, ms
-- RETURNS
--   'ok' number:int question fence wake:flag     wake: 1 if the session is to be claimed
--   'none'                      there is no question
--   'other' number:int question fence     the open question is another one
--   'new' number:int question fence       the open question, which the user may not have seen yet
--   'answered'                  another decision came first
--   'wrong'                     the wait has another proof

local run = fields(s.run, 'token', 'worker', 'fence', 'question', 'answered', 'questions', 'phase', 'stop', 'rollback', 'interrupt')
local of, to, _, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+) (%S+)')
local fence, n, question = string.match(run.question or '', '^(%d+) (%d+) (.*)$')
local parked = run.phase == 'parked' and requested(run, run.fence) == ''
local journal = fields(s.journal, 'fence', 'waits')
local of_key, waits = string.match(journal.waits or '', '^(%d+) (.*)$')

-- A value counts as long as its turn has not ended, also between two runs, or while the turn waits for another one.
if decision == 'value' then
  local nth, kind, proven = string.match(journal.fence == run.fence and call('HGET', s.journal, 'p:' .. key) or '', '^(%d+) (%l+) (%x*)$')
  if kind ~= 'value' or requested(run, run.fence) ~= '' then return none{} end
  if proof ~= '' and proof ~= proven then return wrong{} end
  local before, given = call('HGET', s.journal, 'a:' .. key), nth .. ' value ' .. value
  if before and before ~= given then return answered{} end
  local open = fence == run.fence and n == nth
  call('HDEL', s.run, '') -- as below: a value lets its turn end
  if not before then
    call('HSET', s.journal, 'a:' .. key, given)
    if open then call('HSET', s.run, 'answered', fence .. ' ' .. n .. ' value ' .. name .. (s.by ~= '' and ' ' .. s.by or '')) end
    audit(s, decision, s.prefix .. run.fence .. '.' .. nth, now_ms())
  end
  if open and parked then
    call('HSET', s.run, 'hold', '0')
  elseif open and (run.token or '') ~= '' then
    call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"answer","token":"' .. run.token .. '","fence":' .. fence ..
      ',"question":' .. n .. ',"answer":"value"}')
  end
  return ok{number = tonumber(nth), question = '', fence = run.fence, wake = open and parked and 1 or 0}
end

if not fence or fence ~= run.fence or not parked and ((run.token or '') == '' or call('GET', s.sentinel) ~= run.token) then return none{} end
-- A repeated decision that was carried out must not decide a newer question.
if by == name and (of ~= fence or to ~= n) then return ok{number = tonumber(to), question = '', fence = of, wake = 0} end
if string.find(question, '^{"kind":') then return none{} end -- a program's, see ask
local turn, which = string.match(number, '^(%d+) (%d*)$')
if not which then turn, which = fence, number end
if which ~= '' and (which ~= n or turn ~= fence) then return other{number = tonumber(n), question = question, fence = fence} end
if turn ~= fence then return new{number = tonumber(n), question = question, fence = fence} end
local decided = of == fence and to == n
if not decided and only ~= '' and only ~= n then return new{number = tonumber(n), question = question, fence = fence} end
if which == '' and not decided and tonumber(n) > 1 then
  local last, _, _, at = string.match(run.questions or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if last == n and now_ms() - tonumber(at) < settle then return new{number = tonumber(n), question = question, fence = fence} end
end
-- A full Redis refuses a script only until its first write, so that one frees memory.
call('HDEL', s.run, '')
if decided then
  if by ~= name then return answered{} end
else
  call('HSET', s.run, 'answered', fence .. ' ' .. n .. ' ' .. decision .. ' ' .. name .. (s.by ~= '' and ' ' .. s.by or ''))
  if of_key == n and journal.fence == fence then -- the turn's next runs get it, too
    call('HSET', s.journal, 'a:' .. waits, n .. ' ' .. decision .. (s.by ~= '' and ' ' .. s.by or ''))
  end
  close_question(s, now_ms(), ',"decision":"' .. (decision == 'deny' and 'denied' or 'allowed') .. '"' .. (s.by ~= '' and ',"by":' .. quote(s.by) or ''))
  audit(s, decision, s.prefix .. fence .. '.' .. n, now_ms())
end
if parked then
  call('HSET', s.run, 'hold', '0')
  return ok{number = tonumber(n), question = question, fence = fence, wake = 1}
end
call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"answer","token":"' .. run.token .. '","fence":' .. fence ..
  ',"question":' .. n .. ',"answer":"' .. decision .. '","by":' .. quote(s.by) .. '}')
return ok{number = tonumber(n), question = question, fence = fence, wake = 0}

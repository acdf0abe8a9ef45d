-- ask: stores a question of the turn's agent, or withdraws it. Numbers of questions rise over the
-- session's life, so a late decision never matches a later question. A question with a key keeps its
-- number if the turn's next run asks it again, and a decision that came meanwhile counts. A wait for a
-- program's value, or for a time, is stored as a question that no person sees.
--
-- KEYS sentinel run journal owed outbox deliveries
-- ARGS
--   s.task            prefix of the session's task hashes
--   s.prefix          of task ids
--   s.token
--   s.fence int
--   ttl int           the sentinel's, ms
--   nth number        which of the turn's questions, from 1
--   question          JSON; '': it is withdrawn. A wait's begins with its kind
--   key               its name in all runs of the turn, or ''. To withdraw with it is to deny it
-- RETURNS
--   'ok' decision number:int by at:int     decision: the user's, if there is one already, or ''; number: the
--     question's, or 0 if it was never asked; by: who has decided, '' if unknown, or with the decision 'value'
--     the value, JSON, once it is in the journal; at: when it was asked first, ms
--   'lost'

local run = fields(s.run, 'token', 'fence', 'questions', 'answered', 'ids')
if not owned(s, run) then return lost{} end
local last, of, asked, at = string.match(run.questions or '', '^(%d+) (%d+) (%d+) (%d+)$')
last = tonumber(last) or 0
asked = of == s.fence and tonumber(asked) or 0
local journal = key ~= '' and fields(s.journal, 'fence', 'waits') or {}
local keyed = journal.fence == s.fence
local before = keyed and question ~= '' and call('HGET', s.journal, 'a:' .. key) -- decided, maybe in an earlier run
-- It was asked in an earlier run, and no other one since.
local again = keyed and question ~= '' and journal.waits == int(last) .. ' ' .. key
local number = 0
if nth == asked or again then
  number = last -- sent again, or withdrawn
elseif nth > asked and question ~= '' then
  number, at = last + 1, int(now_ms())
end
local put, tasks = number > last or again and call('HEXISTS', s.deliveries, 'question') == 0, {}
local kind, proof = string.match(question, '^{"kind":"(%l+)","proof":"(%x*)"')
local shown = not kind
if put and shown and not before then
  for _, id in ipairs(cjson.decode(run.ids)) do tasks[#tasks + 1] = {id = id, route = route_of(s, id)} end
end
local turn, to, decision, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+)%s?%S*%s?(.*)$')
if turn ~= s.fence or tonumber(to) ~= number then decision, by = '', '' end
if decision == 'value' then by = '' end -- who has given it

call('PEXPIRE', s.sentinel, ttl)
if before then
  local n, was, who = string.match(before, '^(%d+) (%S+) ?(.*)$')
  return ok{decision = was, number = tonumber(n), by = who, at = 0}
end
if nth < asked then return ok{decision = '', number = 0, by = '', at = 0} end -- a later question was asked since
if question == '' or put then close_question(s, now_ms()) end
if put and shown then put_question(s, tasks, s.prefix .. s.fence, int(number), question, now_ms()) end
if question == '' then
  call('HDEL', s.run, 'question')
  if keyed and decision == '' and number > 0 then call('HSET', s.journal, 'a:' .. key, int(number) .. ' deny') end
else
  call('HSET', s.run, 'question', s.fence .. ' ' .. int(number) .. ' ' .. question,
    'questions', int(number) .. ' ' .. s.fence .. ' ' .. int(nth) .. ' ' .. at)
  if keyed then call('HSET', s.journal, 'waits', int(number) .. ' ' .. key) end
  if keyed and kind then call('HSET', s.journal, 'p:' .. key, int(number) .. ' ' .. kind .. ' ' .. proof) end
end
return ok{decision = decision, number = number, by = by, at = tonumber(at) or 0}

-- ask: stores a question of the turn's agent, or withdraws it. Numbers of questions rise over the
-- session's life, so a late decision never matches a later question.
--
-- KEYS sentinel run owed outbox deliveries
-- ARGS
--   s.task            prefix of the session's task hashes
--   s.prefix          of task ids
--   s.token
--   s.fence int
--   ttl int           the sentinel's, ms
--   nth number        which of the turn's questions, from 1
--   question          JSON; '': it is withdrawn
-- RETURNS
--   'ok' decision number:int by     decision: the user's, if there is one already, or ''; number: the
--     question's, or 0 if it was never asked; by: who has decided, '' if unknown
--   'lost'

local run = fields(s.run, 'token', 'fence', 'questions', 'answered', 'ids')
if not owned(s, run) then return lost{} end
local last, of, asked, at = string.match(run.questions or '', '^(%d+) (%d+) (%d+) (%d+)$')
last = tonumber(last) or 0
asked = of == s.fence and tonumber(asked) or 0
local number = 0
if nth == asked then
  number = last -- sent again, or withdrawn
elseif nth > asked and question ~= '' then
  number, at = last + 1, int(now_ms())
end
local asked_now, tasks = number > last, {}
if asked_now then
  for _, id in ipairs(cjson.decode(run.ids)) do tasks[#tasks + 1] = {id = id, route = route_of(s, id)} end
end
local turn, to, decision, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+)%s?%S*%s?(.*)$')
if turn ~= s.fence or tonumber(to) ~= number then decision, by = '', '' end

call('PEXPIRE', s.sentinel, ttl)
if nth < asked then return ok{decision = '', number = 0} end -- a later question was asked since
if question == '' or asked_now then close_question(s, now_ms()) end
if asked_now then put_question(s, tasks, s.prefix .. s.fence, int(number), question, now_ms()) end
if question == '' then
  call('HDEL', s.run, 'question')
else
  call('HSET', s.run, 'question', s.fence .. ' ' .. int(number) .. ' ' .. question,
    'questions', int(number) .. ' ' .. s.fence .. ' ' .. int(nth) .. ' ' .. at)
end
return ok{decision = decision, number = number, by = by}

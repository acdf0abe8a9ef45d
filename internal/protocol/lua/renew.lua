-- renew: extends the sentinel and asynq's leases of the whole turn. It needs only the token: the
-- owner may have begun the next turn meanwhile.
--
-- KEYS sentinel run pending lease
-- ARGS
--   s.token
--   s.fence int      of the turn that the owner knows of
--   ttl number       the sentinel's, ms
-- RETURNS
--   'ok' fence:int request waiting:int steer:flag question:int decision now:int by
--     of the running turn: its fence, what is requested of it, how many messages wait, 1 if one of them
--     is to be steered in, the number of the last question that has a decision, the decision; by:
--     who has decided, '' if unknown
--   'lost'

local run = fields(s.run, 'token', 'fence', 'ids', 'stop', 'rollback', 'interrupt', 'steer', 'answered', 'seq')
if run.token ~= s.token or not owns(s.sentinel, s.token) then return lost{} end
local now, ids = now_ms(), cjson.decode(run.ids)
local ends, waiting = lease_end(now, ttl), call('LLEN', s.pending)
local confirmed = s.fence == run.fence -- else the owner knows only the previous turn
local of, question, decision, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+)%s?%S*%s?(.*)$')
if of ~= run.fence then question, decision, by = 0, '', '' end

call('PEXPIRE', s.sentinel, ttl)
call('HSET', s.run, 'special', '1')
if confirmed then confirm_claim(s, run) end
for _, id in ipairs(ids) do pcall('ZADD', s.lease, ends, id) end
return ok{fence = tonumber(run.fence), request = requested(run, run.fence), waiting = waiting, steer = run.steer == run.fence and 1 or 0,
  question = tonumber(question), decision = decision, now = now, by = by}

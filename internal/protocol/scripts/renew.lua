-- Code generated from ../lua/renew.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_pending, s_lease, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'ids', 'stop', 'rollback', 'interrupt', 'steer', 'answered', 'seq')
  return {token = v[1], fence = v[2], ids = v[3], stop = v[4], rollback = v[5], interrupt = v[6], steer = v[7], answered = v[8], seq = v[9]}
end

-- confirm_claim(s, run) records that the owner knows of this turn. Until then the owner's death
-- does not count, because the reply to its claim may have been lost. A batch of events records it,
-- too.
local function confirm_claim(s_fence, s_run, run)
  if string.match(run.seq or '', '^(%d+) ') ~= s_fence then call('HSET', s_run, 'seq', s_fence .. ' 0') end
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

local ttl = tonumber(ARGV[3])

local run = fields_1(s_run)
if run.token ~= s_token or not (redis.call('GET', s_sentinel) == s_token) then return {'lost'} end
local now, ids = now_ms(), cjson.decode(run.ids)
local ends, waiting = string.format('%d', (math.floor((now + ttl) / 1000))), call('LLEN', s_pending)
local confirmed = s_fence == run.fence -- else the owner knows only the previous turn
local of, question, decision, by = string.match(run.answered or '', '^(%d+) (%d+) (%S+)%s?%S*%s?(.*)$')
if of ~= run.fence then question, decision, by = 0, '', '' end

call('PEXPIRE', s_sentinel, ttl)
call('HSET', s_run, 'special', '1')
if confirmed then confirm_claim(s_fence, s_run, run) end
for _, id in ipairs(ids) do pcall('ZADD', s_lease, ends, id) end
return {'ok', tonumber(run.fence), requested(run, run.fence), waiting, run.steer == run.fence and 1 or 0, tonumber(question), decision, now, by}

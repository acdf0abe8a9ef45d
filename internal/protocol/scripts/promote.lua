-- Code generated from ../lua/promote.lua by go generate; DO NOT EDIT.
--
-- promote: moves a turn from starting to running, before its agent is started.
--
-- KEYS sentinel run
-- ARGS
--   s.token
--   s.fence int
--   ttl int         the sentinel's, ms
-- RETURNS
--   'ok' steer:flag      1 if a message waits that is to be steered in
--   'refused' by    'stop', 'rollback', 'interrupt' or 'drain'
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_token, s_fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'stop', 'rollback', 'interrupt', 'steer', 'nostart', 'seq')
  return {token = v[1], fence = v[2], stop = v[3], rollback = v[4], interrupt = v[5], steer = v[6], nostart = v[7], seq = v[8]}
end

-- confirm_claim(s, run) records that the owner knows of this turn. Until then the owner's death
-- does not count, because the reply to its claim may have been lost. A batch of events records it,
-- too.
local function confirm_claim(s_fence, s_run, run)
  if string.match(run.seq or '', '^(%d+) ') ~= s_fence then call('HSET', s_run, 'seq', s_fence .. ' 0') end
end

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

local ttl = ARGV[3]

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
local request = requested(run, s_fence)
call('PEXPIRE', s_sentinel, ttl)
if request ~= '' then return {'refused', request} end
if run.nostart == s_fence then return {'refused', 'drain'} end
call('HSET', s_run, 'phase', 'running')
confirm_claim(s_fence, s_run, run)
return {'ok', run.steer == s_fence and 1 or 0}

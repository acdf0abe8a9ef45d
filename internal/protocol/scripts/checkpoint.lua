-- Code generated from ../lua/checkpoint.lua by go generate; DO NOT EDIT.
--
-- checkpoint: stores the running turn's entries so far, in case it is interrupted.
--
-- KEYS sentinel run record partial
-- ARGS
--   s.token
--   s.fence int
--   ttl int         the sentinel's, ms
--   content         the partial, JSON
--   partial_ttl int  ms
-- RETURNS
--   'ok'
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_partial, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'seq')
  return {token = v[1], fence = v[2], seq = v[3]}
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

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end

local ttl, content, partial_ttl = ARGV[3], ARGV[4], ARGV[5]

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
call('PEXPIRE', s_sentinel, ttl)
call('HSET', s_run, 'special', '1')
confirm_claim(s_fence, s_run, run) -- else a crash would set no resume mark for this
call('SET', s_partial, content, 'PX', partial_ttl)
pcall('HSET', s_record, 'updated_at', string.format('%d', (now_ms())))
return {'ok'}

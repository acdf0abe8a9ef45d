-- Code generated from ../lua/store_state.lua by go generate; DO NOT EDIT.
--
-- store_state: stores the agent state for the session's next turns.
--
-- KEYS sentinel run state
-- ARGS
--   s.token
--   s.fence int
--   ttl int       the sentinel's, ms
--   content       the state, JSON; '': delete it
--   state_ttl int  ms
-- RETURNS
--   'ok'
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_state, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence')
  return {token = v[1], fence = v[2]}
end

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end

local ttl, content, state_ttl = ARGV[3], ARGV[4], ARGV[5]

local run = fields_1(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
call('PEXPIRE', s_sentinel, ttl)
if content == '' then
  call('DEL', s_state)
else
  call('SET', s_state, content, 'PX', state_ttl)
end
return {'ok'}

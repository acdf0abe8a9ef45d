-- Code generated from ../lua/title.lua by go generate; DO NOT EDIT.
--
-- title: names the session's transcript. An agent's title never replaces the user's.
--
-- KEYS sentinel run record
-- ARGS
--   s.token     of the agent's turn, or '' for the user
--   s.fence int  the same
--   title       '': delete it
-- RETURNS
--   'ok'
--   'kept'      the user's title stays
--   'lost'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_record, s_token, s_fence = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'fence', 'rotated')
  return {token = v[1], fence = v[2], rotated = v[3]}
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

local title = ARGV[3]

local users = s_token == ''
local by = call('HGET', s_record, 'title_by')
if not users then
  local run = fields_1(s_run)
  if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
  if by == 'user' or (run.rotated or '') ~= '' then return {'kept'} end
end
local now = string.format('%d', (now_ms()))
if call('HEXISTS', s_record, 'created_at') == 0 then call('HSET', s_record, 'v', '1', 'created_at', now) end
if title == '' then
  call('HDEL', s_record, 'title', 'title_by')
else
  call('HSET', s_record, 'title', title, 'title_by', users and 'user' or 'agent', 'updated_at', now)
end
return {'ok'}

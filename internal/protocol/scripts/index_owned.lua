-- Code generated from ../lua/index_owned.lua by go generate; DO NOT EDIT.
--
-- index_owned: makes reap check sessions after a while at the latest, because they are about to be
-- claimed or are owned. A session with an earlier future score keeps it. A score in the past is
-- replaced: reap may have just read it and be about to remove the session.
--
-- KEYS index
--   the owned index
-- ARGS
--   ttl number        in how many ms
--   sessions list     at most 1,000
-- RETURNS
--   result: moved:int     how many got another score

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_index = KEYS[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local ttl = tonumber(ARGV[1])
local at = 2
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local sessions = list()

local now, moved = now_ms(), {}
local at = now + ttl
local scores = call('ZMSCORE', s_index, unpack(sessions))
for i, session in ipairs(sessions) do
  local score = tonumber(scores[i] or 0)
  if score <= now or score > at then
    moved[#moved + 1], moved[#moved + 2] = string.format('%d', at), session
  end
end
if #moved > 0 then call('ZADD', s_index, unpack(moved)) end
return {#moved / 2}

-- Code generated from ../lua/admit.lua by go generate; DO NOT EDIT.
--
-- admit: returns whether one more message may wait in all sessions together, by the workers' last
-- count (Trim). If no worker has counted for a minute, none runs turns either: then each admitted
-- message is added to the count. Senders may write the key: an unreadable count is ignored, until
-- the workers' next one replaces it.
--
-- KEYS waiting
--   count: messages that wait; at: when they were counted, ms
-- ARGS
--   most number      how many may wait
-- RETURNS
--   result: may:flag      1: it may

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_waiting = KEYS[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local most = tonumber(ARGV[1])

local STALE = 60000 -- ms
local w = pcall('HMGET', s_waiting, 'count', 'at')
if w.err then return {1} end -- the key has another type
local count, at = tonumber(w[1]) or 0, tonumber(w[2]) or 0
if count >= most then return {0} end
if math.abs(now_ms() - at) > STALE then pcall('HINCRBY', s_waiting, 'count', 1) end
return {1}

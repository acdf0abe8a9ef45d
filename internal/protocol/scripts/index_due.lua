-- Code generated from ../lua/index_due.lua by go generate; DO NOT EDIT.
--
-- index_due: returns the due members of an index. Writes nothing.
--
-- KEYS index
-- ARGS
--   batch int    how many at most
-- RETURNS
--   result: now:int next:int due:list     next: score of the first that is not due yet, or 0; due: member, score ...

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_index = KEYS[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local batch = ARGV[1]

local now = now_ms()
local due = call('ZRANGEBYSCORE', s_index, '-inf', string.format('%d', now), 'WITHSCORES', 'LIMIT', 0, batch)
local later = call('ZRANGEBYSCORE', s_index, '(' .. string.format('%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {now, tonumber(later[2] or 0), due}

-- Code generated from ../lua/pause.lua by go generate; DO NOT EDIT.
--
-- pause: stores a deliverer's finding about a destination: it fails, it rejects all deliveries, or
-- it works again. A destination that an operator or a response 410 has disabled stays as it is.
--
-- KEYS destinations
-- ARGS
--   to
--   disabled flag     it rejects all deliveries
--   wait number       it fails: until the next attempt, ms; 0 and not disabled: it works
--   why
-- RETURNS
--   result: stored:flag    0: it stays as it is

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_destinations = KEYS[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

local to, disabled, wait, why = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4]

local now, old = now_ms(), call('HGET', s_destinations, to)
if old then
  local ok, known = try(cjson.decode, old)
  if not ok or type(known) ~= 'table' or known.disabled or known.paused and (tonumber(known.at) or 0) == 0 then return {0} end
end
if disabled then
  call('HSET', s_destinations, to, '{"disabled":true,"why":' .. quote(why) .. ',"at":' .. string.format('%d', now) .. '}')
elseif wait > 0 then
  call('HSET', s_destinations, to, '{"paused":true,"why":' .. quote(why) .. ',"at":' .. string.format('%d', (now + wait)) .. '}')
else
  call('HDEL', s_destinations, to)
end
return {1}

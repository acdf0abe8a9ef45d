-- Code generated from ../lua/configure.lua by go generate; DO NOT EDIT.
--
-- configure: stores a setting of the session: queue is how it treats messages that find it busy,
-- reply_to the destination of its outcomes.
--
-- KEYS record
-- ARGS
--   setting      its field in the record
--   value        '': delete it, so that the default applies
-- RETURNS
--   'ok'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_record = KEYS[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local setting, value = ARGV[1], ARGV[2]

local now = string.format('%d', (now_ms()))
if value == '' then
  call('HDEL', s_record, setting)
else
  if call('HEXISTS', s_record, 'created_at') == 0 then call('HSET', s_record, 'v', '1', 'created_at', now) end
  call('HSET', s_record, setting, value, 'updated_at', now)
end
return {'ok'}

-- Code generated from ../lua/configure.lua by go generate; DO NOT EDIT.
--
-- configure: stores a setting of the session: queue is how it treats messages that find it busy,
-- reply_to the destination of its outcomes.
--
-- KEYS record audit
-- ARGS
--   s.by         who does it, '' if unknown: see audit
--   setting      its field in the record
--   value        '': delete it, so that the default applies
-- RETURNS
--   'ok'

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_record, s_audit, s_by = KEYS[1], KEYS[2], ARGV[1]
local AUDIT_LINES, AUDIT_TTL = '-1000', '2592000' -- the last thousand, for 30 days

-- quote(text) returns a JSON string.
local function quote(text)
  if string.find(text, '^[%w%-._:@+=~]*$') then return '"' .. text .. '"' end
  return cjson.encode(text)
end

-- audit(s, did, what, now) appends a line to the session's audit: s.by did something to what. It fails
-- no move: a key of a wrong type is skipped.
local function audit(s_audit, s_by, did, what, now)
  pcall('RPUSH', s_audit, '{"at":' .. string.format('%d', now) .. ',"by":' .. quote(s_by) .. ',"did":"' .. did .. '","what":' .. quote(what) .. '}')
  pcall('LTRIM', s_audit, AUDIT_LINES, '-1')
  pcall('EXPIRE', s_audit, AUDIT_TTL)
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local setting, value = ARGV[2], ARGV[3]

local now = string.format('%d', (now_ms()))
local changes = (call('HGET', s_record, setting) or '') ~= value
if value == '' then
  call('HDEL', s_record, setting)
else
  if call('HEXISTS', s_record, 'created_at') == 0 then call('HSET', s_record, 'v', '1', 'created_at', now) end
  call('HSET', s_record, setting, value, 'updated_at', now)
end
if changes then audit(s_audit, s_by, setting, value, now) end
return {'ok'}

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

local now, old = now_ms(), call('HGET', s.destinations, to)
if old then
  local ok, known = try(cjson.decode, old)
  if not ok or type(known) ~= 'table' or known.disabled or known.paused and (tonumber(known.at) or 0) == 0 then return result{stored = 0} end
end
if disabled then
  call('HSET', s.destinations, to, '{"disabled":true,"why":' .. quote(why) .. ',"at":' .. int(now) .. '}')
elseif wait > 0 then
  call('HSET', s.destinations, to, '{"paused":true,"why":' .. quote(why) .. ',"at":' .. int(now + wait) .. '}')
else
  call('HDEL', s.destinations, to)
end
return result{stored = 1}

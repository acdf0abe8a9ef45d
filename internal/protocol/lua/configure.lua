-- configure: stores how the session treats messages that find it busy.
--
-- KEYS record
-- ARGS
--   settings     JSON; '': delete them, so that its worker's settings apply
-- RETURNS
--   'ok'

local now = int(now_ms())
if settings == '' then
  call('HDEL', s.record, 'queue')
else
  if call('HEXISTS', s.record, 'created_at') == 0 then call('HSET', s.record, 'v', '1', 'created_at', now) end
  call('HSET', s.record, 'queue', settings, 'updated_at', now)
end
return ok{}

-- configure: stores a setting of the session: queue is how it treats messages that find it busy,
-- reply_to the destination of its outcomes.
--
-- KEYS record
-- ARGS
--   setting      its field in the record
--   value        '': delete it, so that the default applies
-- RETURNS
--   'ok'

local now = int(now_ms())
if value == '' then
  call('HDEL', s.record, setting)
else
  if call('HEXISTS', s.record, 'created_at') == 0 then call('HSET', s.record, 'v', '1', 'created_at', now) end
  call('HSET', s.record, setting, value, 'updated_at', now)
end
return ok{}

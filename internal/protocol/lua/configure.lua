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

local now = int(now_ms())
local changes = (call('HGET', s.record, setting) or '') ~= value
if value == '' then
  call('HDEL', s.record, setting)
else
  if call('HEXISTS', s.record, 'created_at') == 0 then call('HSET', s.record, 'v', '1', 'created_at', now) end
  call('HSET', s.record, setting, value, 'updated_at', now)
end
if changes then audit(s, setting, value, now) end
return ok{}

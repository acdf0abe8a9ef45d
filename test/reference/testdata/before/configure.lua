-- configure: how the session treats messages that find it busy.
--
-- ARGV[2] the settings, JSON; '': those of its worker
--
-- Answers {'ok'}.

local now = int(now_ms())
if ARGV[2] == '' then
  call('HDEL', record, 'queue')
else
  if call('HEXISTS', record, 'created_at') == 0 then call('HSET', record, 'v', '1', 'created_at', now) end
  call('HSET', record, 'queue', ARGV[2], 'updated_at', now)
end
return {'ok'}

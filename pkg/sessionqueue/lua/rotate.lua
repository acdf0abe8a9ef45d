-- rotate: the next message begins another transcript under the same key, queue
-- and lock. A turn that is running finishes into the old one.
--
-- ARGV[2] the new session id
-- ARGV[3] the session id that it replaces, or '' for whichever
--
-- Answers {session id now, 1 if it was changed}.

local rec = call('HMGET', record, 'session_id', 'created_at')
if rec[1] == ARGV[2] then return {ARGV[2], 1} end
if ARGV[3] ~= '' and rec[1] ~= ARGV[3] then return {rec[1] or '', 0} end
local now = int(now_ms())
call('HLEN', run)
call('HSET', record, 'v', '1', 'session_id', ARGV[2], 'updated_at', now, 'created_at', rec[2] or now)
if call('EXISTS', run) == 1 then call('HSET', run, 'rotated', ARGV[2]) end
return {ARGV[2], 1}

-- rotate: the next message begins another transcript under the same key, queue
-- and lock. A turn that is running finishes into the old one. What was known of
-- turns that were cut off goes with the old one, except how many in a row: one of
-- the messages that wait may be what kills the workers.
--
-- ARGV[2] the new session id
-- ARGV[3] the session id that it replaces, or '' for whichever
-- ARGV[4] do nothing after this ms: the sender has given up
--
-- Answers {session id now, 1 if it was changed}, or {'', -1}: it is too late.

local rec = call('HMGET', record, 'session_id', 'created_at')
if rec[1] == ARGV[2] then return {ARGV[2], 1} end
if ARGV[3] ~= '' and rec[1] ~= ARGV[3] then return {rec[1] or '', 0} end
if now_ms() > tonumber(ARGV[4]) then return {'', -1} end
local now = int(now_ms())
local busy = call('EXISTS', sentinel)
call('HLEN', run)
call('HLEN', resume)
call('HSET', record, 'v', '1', 'session_id', ARGV[2], 'updated_at', now, 'created_at', rec[2] or now)
call('HDEL', record, 'title', 'title_by')
forget_notes()
if call('EXISTS', run) == 1 then call('HSET', run, 'rotated', ARGV[2]) end
if busy == 0 then
  call('HDEL', resume, 'pending', 'reason', 'marked_at', 'suspended', 'carried')
  call('DEL', partial)
end
return {ARGV[2], 1}

-- rotate: the next message begins another transcript under the same key, queue and lock. A turn that
-- is running finishes into the old one. What was known of turns that were interrupted goes with the
-- old one, except how many in a row: one of the messages that wait may be what kills the workers.
--
-- KEYS sentinel run record resume partial
-- ARGS
--   fresh_sid           the new session id
--   sid                 the session id that it replaces, or '' for whichever
--   deadline number     do nothing after this ms: the sender has given up
-- RETURNS
--   result: sid changed
--     sid: the session id now; changed: 1. {'', -1}: it is too late

local record = fields(s.record, 'session_id', 'created_at')
if record.session_id == fresh_sid then return result{sid = fresh_sid, changed = 1} end
if sid ~= '' and record.session_id ~= sid then return result{sid = record.session_id or '', changed = 0} end
local now = now_ms()
if now > deadline then return result{sid = '', changed = -1} end
local busy = call('EXISTS', s.sentinel)
call('HLEN', s.run)
call('HLEN', s.resume)
call('HSET', s.record, 'v', '1', 'session_id', fresh_sid, 'updated_at', int(now), 'created_at', record.created_at or int(now))
call('HDEL', s.record, 'title', 'title_by')
forget_notes(s)
if call('EXISTS', s.run) == 1 then call('HSET', s.run, 'rotated', fresh_sid) end
if busy == 0 then
  call('HDEL', s.resume, 'pending', 'reason', 'marked_at', 'suspended', 'carried')
  call('DEL', s.partial)
end
return result{sid = fresh_sid, changed = 1}

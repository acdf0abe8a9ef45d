-- The plain claim, sent before claim.lua: the session has nothing but messages
-- that wait, and its last owner has released it. Most claims are so, and this does
-- no more than they need. It reads less before it writes: a head of the line that
-- is not plain it puts back. Tasks that a stock asynq.Server is to try again are
-- left to the turn's end.
--
-- ARGV[2] token, new for every claim    ARGV[7] its cap of follow-ups
-- ARGV[3] sentinel's TTL, ms            ARGV[8] its drop policy
-- ARGV[4] worker                        ARGV[9] its quiet window, ms
-- ARGV[5] phase to begin with           ARGV[10] '1': it keeps agents warm
-- ARGV[6] busy mode of this worker      ARGV[11] a fresh session id
--
-- Answers as claim.lua does when it has taken a turn, or {'special'}: nothing is
-- done.

local r = call('HMGET', run, 'phase', 'fence', 'sid', 'entries', 'hold', 'done', 'rotated', 'reset', 'resume')
local rec = call('HMGET', record, 'session_id', 'fence', 'created_at', 'dropped')
if (r[1] or 'idle') ~= 'idle' or (r[6] or '0') ~= '0' or (r[7] or '') ~= '' or (r[8] or '') ~= '' or (r[9] or '') ~= ''
  or call('EXISTS', paused, active, scheduled, resume, followups) > 0
  or not call('SET', sentinel, ARGV[2], 'NX', 'PX', ARGV[3]) then
  return {'special'}
end

local id, head = pcall('RPOPLPUSH', pending, active), {}
if type(id) == 'string' then
  head = pcall('HMGET', task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key')
end
if not head[1] or head[4] or r[5] and string.find(r[5], id, 1, true) or not string.find(id, '^[%w%-._:@+=~]*$') then
  if type(id) == 'string' then call('LMOVE', active, pending, 'LEFT', 'RIGHT') end
  call('DEL', sentinel)
  return {'special'}
end

local now = now_ms()
local at, sid = int(now), rec[1] or ARGV[11]
local fence = int(next_fence(math.max(tonumber(r[2]) or 0, tonumber(rec[2]) or 0), now))
if head[2] then
  call('HSET', task .. id, 'state', 'active')
else
  call('HSET', task .. id, 'state', 'active', 'seen', at)
end
pcall('ZADD', lease, lease_end(now, ARGV[3]), id)
-- A small hash is searched from its beginning: what finish uses comes first.
call('HSET', run, 'fence', fence, 'token', ARGV[2], 'ids', '["' .. id .. '"]', 'phase', ARGV[5], 'sid', sid, 'started_at', at,
  'worker', ARGV[4], 'mode', ARGV[6], 'cap', ARGV[7], 'drop', ARGV[8], 'debounce', ARGV[9], 'warm', ARGV[10])
local entries = tonumber(r[4]) or 0
if sid ~= r[3] and entries > 0 then
  call('HSET', run, 'entries', '0')
  entries = 0
end
if rec[3] then
  call('HSET', record, 'session_id', sid, 'fence', fence, 'updated_at', at)
else
  call('HSET', record, 'v', '1', 'session_id', sid, 'fence', fence, 'updated_at', at, 'created_at', at)
end
local message = {id, head[1], now - (tonumber(head[2]) or now)}
if head[3] or head[5] then message[4], message[5] = tonumber(head[3]) or 0, head[5] and 1 or 0 end
return {'turn', now, tonumber(fence), sid, entries, rec[4] or '', {message}}

-- The plain claims, of one session after another: it has nothing but messages
-- that wait, and its last owner has released it. Most claims are so, and this does
-- no more than they need. A head of the line that is not plain it puts back. Tasks
-- that a stock asynq.Server is to try again are left to the turn's end.
--
-- ARGV[1] sentinel's TTL, ms           ARGV[5] its cap of follow-ups
-- ARGV[2] worker                       ARGV[6] its drop policy
-- ARGV[3] phase to begin with          ARGV[7] its quiet window, ms
-- ARGV[4] busy mode of this worker     ARGV[8] '1': it keeps agents warm
--                                      ARGV[9] how many bytes a task's msg may have
--
-- and of each session 10 KEYS, in the order in which they are named below, and
--
--   1 prefix of its task hashes   2 token, new for every claim   3 a fresh session id
--
-- Answers of each as claim.lua does when it has taken a turn, or {'special'}:
-- nothing is done.
--
-- An error of a key of one session must not end the script: others are claimed in
-- it. So all is done with pcall, of which an error is the answer.

local pcall = redis.pcall
local KEYS, ARGV = KEYS, ARGV
local ttl, worker, phase, mode, cap, drop, debounce, warm = unpack(ARGV, 1, 8)
local longest = tonumber(ARGV[9])
local now = now_ms()
local at = int(now)

-- claim(k, a): a claim of the session whose KEYS and ARGV follow those, or false.
local function claim(k, a)
  local sentinel, run, followups, resume, partial, paused, scheduled, active, record, pending = unpack(KEYS, k + 1, k + 10)
  local task, token, fresh = unpack(ARGV, a + 1, a + 3)
  local r = pcall('HMGET', run, 'phase', 'fence', 'sid', 'entries', 'hold', 'done', 'rotated', 'reset', 'resume', 'special')
  local rec = pcall('HMGET', record, 'session_id', 'fence', 'created_at', 'dropped')
  local had_owner = r[2] or rec[2] -- else there are none of the keys that only an owner leaves
  if r.err or rec.err
    or (r[1] or 'idle') ~= 'idle' or (r[6] or '0') ~= '0' or (r[7] or '') ~= '' or (r[8] or '') ~= '' or (r[9] or '') ~= '' or (r[10] or '') ~= ''
    or had_owner and pcall('EXISTS', paused, scheduled, active, followups, resume, partial) ~= 0
    or not had_owner and pcall('EXISTS', paused, scheduled, active) ~= 0 then
    return false
  end
  local set = pcall('SET', sentinel, token, 'NX', 'PX', ttl)
  if not set or set.err then return false end

  local id, head = pcall('RPOPLPUSH', pending, active), {}
  local bytes = type(id) == 'string' and pcall('HSTRLEN', task .. id, 'msg')
  if type(bytes) == 'number' and bytes <= longest then
    head = pcall('HMGET', task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key')
  end
  if not head[1] or head[4] or r[5] and string.find(r[5], id, 1, true) or not string.find(id, '^[%w%-._:@+=~]*$') then
    if type(id) == 'string' then pcall('LMOVE', active, pending, 'LEFT', 'RIGHT') end
    pcall('DEL', sentinel)
    return false
  end

  local sid, entries = rec[1] or fresh, tonumber(r[4]) or 0
  local fence = int(next_fence(math.max(tonumber(r[2]) or 0, tonumber(rec[2]) or 0), now))
  if head[2] then
    pcall('HSET', task .. id, 'state', 'active')
  else
    pcall('HSET', task .. id, 'state', 'active', 'seen', at)
  end
  if sid ~= r[3] then entries = 0 end
  if r[2] then
    pcall('HSET', run, 'fence', fence, 'token', token, 'ids', '["' .. id .. '"]', 'phase', phase, 'sid', sid, 'entries', int(entries),
      'started_at', at, 'worker', worker, 'mode', mode, 'cap', cap, 'drop', drop, 'debounce', debounce, 'warm', warm)
  else -- a small hash is searched from its beginning: what finish uses comes first
    pcall('HSET', run, 'fence', fence, 'special', '', 'rotated', '', 'hold', '', 'entries', '0', 'done', '0', 'ids', '["' .. id .. '"]', 'started_at', at,
      'token', token, 'phase', phase, 'sid', sid,
      'worker', worker, 'mode', mode, 'cap', cap, 'drop', drop, 'debounce', debounce, 'warm', warm)
  end
  if rec[3] then
    pcall('HSET', record, 'session_id', sid, 'fence', fence, 'updated_at', at)
  else
    pcall('HSET', record, 'v', '1', 'session_id', sid, 'fence', fence, 'updated_at', at, 'created_at', at)
  end
  local dropped = rec[4] or ''
  if dropped ~= '' then
    local n = pcall('HMGET', record, 'omitted', 'omitted_told')
    dropped = int(tonumber(n[1]) or 0) .. ' ' .. int(tonumber(n[2]) or 0) .. ' ' .. dropped
  end
  local message = {id, head[1], now - (tonumber(head[2]) or now)}
  if head[3] or head[5] then message[4], message[5] = tonumber(head[3]) or 0, head[5] and 1 or 0 end
  return {'turn', now, tonumber(fence), sid, entries, dropped, {message}}
end

local answers, a = {}, 9
for k = 0, #KEYS - 1, 10 do
  answers[#answers + 1] = claim(k, a) or {'special'}
  a = a + 3
end
return answers

-- claim: the sentinel, and the next message with it.
--
-- ARGV[2] token, new for every claim    ARGV[8] cap of follow-ups
-- ARGV[3] sentinel's TTL, ms            ARGV[9] interruptions that suspend
-- ARGV[4] worker                        ARGV[10] a fresh session id
-- ARGV[5] phase to begin with           ARGV[11] cap of the event stream
-- ARGV[6] prefix of turn ids            ARGV[12] retention, seconds
-- ARGV[7] busy mode of this worker
--
-- Answers {'turn', now, fence, session id, entries written so far, reset reason,
-- reason of the resume mark, {id, msg, age ms, redeliveries}}; or
-- {'held', ms left}, {'paused'}, {'wait', until ms}, {'empty'}. Under its own
-- token it repeats its answer.
--
-- It begins with SET: a full Redis starts no new turn.

local token, ttl, phase, prefix = ARGV[2], tonumber(ARGV[3]), ARGV[5], ARGV[6]
local now = now_ms()

local r = call('HMGET', run, 'token', 'fence', 'phase', 'ids', 'stop', 'interrupt', 'sid', 'entries',
  'hold', 'reset', 'resume', 'done', 'rotated')
local rec = call('HMGET', record, 'session_id', 'fence', 'created_at')
local fence, sid, entries, hold = r[2], rec[1], tonumber(r[8]) or 0, r[9]

local owner = call('GET', sentinel)
if owner == token and r[1] == token then
  return {'turn', now, tonumber(fence), r[7], entries, r[10] or '', r[11] or '', taken(cjson.decode(r[4])[1], now)}
end
if owner then return {'held', call('PTTL', sentinel)} end

-- In most claims there is none of these.
local special = call('EXISTS', paused, active, scheduled, retry, resume, followups) > 0
local dead = r[3] == 'starting' or r[3] == 'running'
if special and call('EXISTS', paused) == 1 then return {'paused'} end

-- How a dead owner's turn ends: redelivered, unless somebody had asked for its
-- end, or its message was there too often when a worker died.
local mark, suspended, interruptions = '', false, 0
if special then
  local m = call('HMGET', resume, 'reason', 'interruptions', 'suspended')
  mark, interruptions, suspended = m[1] or '', tonumber(m[2]) or 0, m[3] == '1'
end
local crashed = r[3] == 'running'
local verdict = false -- {archive or complete, status, error}
if dead and r[5] == fence then
  verdict, crashed = {'archive', 'stopped', 'stopped by user'}, false
elseif dead and r[6] == fence then
  verdict, crashed = {'complete', 'interrupted', 'interrupted by a newer message'}, false
elseif crashed then
  interruptions = interruptions + 1
  if interruptions >= tonumber(ARGV[9]) then
    verdict, suspended = {'archive', 'failed', 'given up: its worker died in ' .. interruptions .. ' turns in a row'}, true
  end
end

-- What is in active goes back to the head of the line. Somebody else's live
-- lease means that a stock asynq.Server is at work on this queue: wait for it.
local left = special and call('LRANGE', active, 0, -1) or {} -- newest first
local ours, back, ending, lost = {}, {}, {}, {}
if dead then
  for _, id in ipairs(cjson.decode(r[4])) do ours[id] = true end
end
for _, id in ipairs(left) do
  local score = call('ZSCORE', lease, id)
  if score and foreign(score) and tonumber(score) * 1000 > now then
    return {'wait', math.min(tonumber(score) * 1000, now + 1000)}
  end
  local msg, unique = load(id)
  if not msg then
    lost[#lost + 1] = id
  elseif verdict and ours[id] then
    ending[#ending + 1] = {id, msg, unique}
  else
    back[#back + 1] = id
  end
end

local due = special and due_tasks(now) or {}
local h, gone = false, 0
if #back > 0 then
  local t = call('HMGET', task .. back[#back], 'msg', 'seen', 'redelivered')
  h = {back[#back], t[1], t[2], (tonumber(t[3]) or 0) + 1}
else
  h, gone = head(due)
end
local wait = h and held(h[1], hold, now)
if #left == 0 and #due == 0 and not dead and (wait or not h and gone == 0) then
  wait = wait or next_at(hold, now)
  if wait then return {'wait', wait} end
  return {'empty'}
end
if #left > 0 or #due > 0 then -- the keys of what follows, before the first write
  call('ZCARD', archived)
  call('ZCARD', completed)
  call('LLEN', pending)
end
if special then call('HLEN', followups) end
call('ZCARD', lease)

if not call('SET', sentinel, token, 'NX', 'PX', ARGV[3]) then return {'held', ttl} end

for _, id in ipairs(lost) do call('LREM', active, 0, id) end
for _, e in ipairs(ending) do
  local id, seconds, keep = e[1], math.floor(now / 1000), tonumber(ARGV[12])
  local outcome = '{"type":"turn_ended","status":"' .. verdict[2] .. '","session_id":"' .. r[7] .. '","turn":"' .. prefix .. fence ..
    '","fence":' .. fence .. ',"messages":[' .. quote(own_id(prefix, id)) .. '],"error":"' .. verdict[3] .. '"}'
  call('LREM', active, 0, id)
  if verdict[1] == 'archive' then
    archive(id, e[2], e[3], verdict[3], outcome, now)
  else
    if keep > 0 then
      call('HSET', task .. id, 'state', 'completed', 'result', outcome, 'msg', with_completion(e[2], keep, seconds))
      call('ZADD', completed, int(seconds + keep), id)
    else
      call('DEL', task .. id)
    end
    if e[3] then call('DEL', e[3]) end
    add(processed, processed_day, 1)
  end
  call('HDEL', followups, own_id(prefix, id))
  pcall('XADD', events, 'MAXLEN', '~', ARGV[11], '*', 'e', outcome)
end
for _, id in ipairs(back) do
  call('LMOVE', active, pending, 'LEFT', 'RIGHT')
  call('HSET', task .. id, 'state', 'pending')
  call('HINCRBY', task .. id, 'redelivered', 1)
end
if #left > 0 then call('DEL', lease) end
add(processed, processed_day, tonumber(r[12]) or 0)
if crashed then
  mark = 'crash'
  call('HSET', resume, 'pending', '1', 'reason', mark, 'marked_at', int(now), 'interruptions', interruptions)
end
forward(due, now)

if not h or wait then
  skip(gone)
  call('DEL', sentinel)
  call('HSET', run, 'token', '', 'phase', 'idle', 'done', '0')
  if suspended then call('HSET', resume, 'suspended', '1') end
  local at = wait or next_at(hold, now)
  if at then return {'wait', at} end
  return {'empty'}
end

-- A suspended session begins anew: another transcript, the same queue and lock.
local reset = ''
if suspended then
  sid, reset, mark = false, 'suspended', ''
  call('DEL', resume)
end
if not sid then sid = ARGV[10] end
if sid ~= r[7] then entries = 0 end

fence = int(next_fence(math.max(tonumber(fence) or 0, tonumber(rec[2]) or 0), now))
local ends = lease_end(now, ttl)
local message = take(h, gone, now, ends)
if special then call('HDEL', followups, own_id(prefix, h[1])) end
-- A small hash is searched from its beginning: what finish uses comes first.
-- What names a fence or an id (stop, interrupt, seq, hold) needs no clearing.
call('HSET', run, 'token', token, 'fence', fence, 'entries', int(entries), 'done', '0',
  'ids', '[' .. quote(h[1]) .. ']', 'phase', phase, 'sid', sid, 'started_at', int(now),
  'worker', ARGV[4], 'mode', ARGV[7], 'cap', ARGV[8])
if (r[13] or '') ~= '' then call('HSET', run, 'rotated', '') end
if (r[10] or '') ~= reset or (r[11] or '') ~= mark then call('HSET', run, 'reset', reset, 'resume', mark) end
if rec[3] then
  call('HSET', record, 'session_id', sid, 'fence', fence, 'updated_at', int(now))
else
  call('HSET', record, 'v', '1', 'session_id', sid, 'fence', fence, 'updated_at', int(now), 'created_at', int(now))
end
pcall('XADD', events, 'MAXLEN', '~', ARGV[11], '*', 'e', started(prefix, fence, sid, h[1]))
return {'turn', now, tonumber(fence), sid, entries, reset, mark, message}

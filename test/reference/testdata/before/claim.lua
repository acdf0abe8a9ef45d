-- claim: the sentinel, and the next message with it, or several that are
-- collected into one turn.
--
-- ARGV[2] token, new for every claim    ARGV[9] interruptions that suspend
-- ARGV[3] sentinel's TTL, ms            ARGV[10] a fresh session id
-- ARGV[4] worker                        ARGV[11] limits of the event stream
-- ARGV[5] phase to begin with           ARGV[12] retention, seconds
-- ARGV[6] prefix of turn ids            ARGV[13] drop policy of this worker
-- ARGV[7] busy mode of this worker      ARGV[14] its quiet window, ms
-- ARGV[8] its cap of follow-ups         ARGV[15] '1': a crash suspends
--                                       ARGV[16] '1': it keeps agents warm
-- ARGV[17] "messages bytes" of a /stop that a claim archives
-- ARGV[18] "messages bytes" that a turn has at most, unless the first alone has more
-- ARGV[19] how many bytes a task's msg may have
--
-- Answers {'turn', now, fence, session id, entries written so far, what was dropped
-- ('omitted omitted_told ids', or ''), {{id, msg, age ms, redeliveries} ...}, reset
-- reason, reason of the resume mark, its age in ms}; or {'held', ms left}, {'paused'},
-- {'wait', until ms}, {'empty'}, or {'again'}: claim again, a batch of what a /stop has
-- put aside, or of those at the head of the line that are too long to be read, is
-- archived, or of ids without a task has left the line. Under its own token it repeats
-- its answer.
--
-- It begins with SET, but where a batch is archived: a full Redis starts no new turn.

local MOST = 100 -- that are too long, of one call
local token, ttl, phase, prefix = ARGV[2], tonumber(ARGV[3]), ARGV[5], ARGV[6]
longest = tonumber(ARGV[19])
local now = now_ms()

local r = call('HMGET', run, 'token', 'fence', 'phase', 'ids', 'stop', 'interrupt', 'sid', 'entries',
  'hold', 'reset', 'resume', 'done', 'rotated', 'rollback', 'seq', 'special')
local rec = call('HMGET', record, 'session_id', 'fence', 'created_at', 'dropped')
local fence, sid, entries, hold = r[2], rec[1], tonumber(r[8]) or 0, r[9]
local last_sid = r[7] or ''

local owner = call('GET', sentinel)
if owner == token and r[1] == token then
  local at = tonumber(call('HGET', resume, 'marked_at')) or now
  return {'turn', now, tonumber(fence), r[7], entries, told_notes(rec[4]), taken(cjson.decode(r[4]), now), r[10] or '', r[11] or '', now - at}
end
if owner then return {'held', call('PTTL', sentinel)} end

-- In most claims there is none of these.
local special = call('EXISTS', paused, active, scheduled, retry, resume, followups, partial, stopped) > 0
local dead = fence and (r[3] == 'starting' or r[3] == 'running')
if special and call('EXISTS', paused) == 1 then return {'paused'} end
-- A /stop whose sender has died: nothing else is done before that is done.
if special and call('EXISTS', stopped) == 1 then
  local batch, more = stopped_batch(stopped, ARGV[17], longest)
  call('ZCARD', archived)
  archive_stopped(batch, prefix, ARGV[11], now)
  mark_stopping(more)
  return {'again'}
end

-- How a dead owner's turn ends: it is taken back, unless somebody had asked for its
-- end, or its message was there too often when a worker died. An owner that was never
-- heard of after its claim may not know of it, for the reply may be lost: that is no
-- death, and no interruption.
local m = special and resume_record() or {reason = '', interruptions = 0}
local limit, policy_suspends = tonumber(ARGV[9]), ARGV[15] == '1'
local rotated = (r[13] or '') ~= ''
local heard = dead and string.match(r[15] or '', '^(%d+) ') == fence
local verdict, crashed = false, false -- verdict: {archive or complete, status, error}
if dead and r[5] == fence then
  verdict = {'archive', 'stopped', WHY_STOPPED}
elseif dead and r[14] == fence then
  verdict = {'archive', 'interrupted', 'rolled back by a newer message'}
elseif dead and r[6] == fence then
  verdict = {'complete', 'interrupted', 'interrupted by a newer message'}
elseif heard and r[3] == 'running' then
  crashed = interrupt(m, fence, 'crash', rotated, now, limit)
  if crashed and m.suspended then
    verdict = {'archive', 'failed', 'given up: its worker died in ' .. m.interruptions .. ' turns in a row'}
  end
end

-- What is in active goes back to the head of the line. Somebody else's live
-- lease means that a stock asynq.Server is at work on this queue: wait for it.
local left = special and call('LRANGE', active, 0, -1) or {} -- newest first
local ours, in_turn, back, ending, lost = {}, {}, {}, {}, {}
if dead then
  local ok, ids = try(cjson.decode, r[4])
  if ok and type(ids) == 'table' then in_turn = ids end
  for _, id in ipairs(in_turn) do ours[id] = true end
end
for _, id in ipairs(left) do
  local theirs = leased(id, now)
  if theirs then return {'wait', theirs} end
  local died = heard and ours[id] and (tonumber(call('HGET', task .. id, 'deaths')) or 0) + 1 or 0
  local ends = ours[id] and verdict
  -- Before its agent has started a turn is not interrupted, but it may still be
  -- what kills the workers.
  if ours[id] and not ends and r[3] == 'starting' and died >= limit then
    ends = {'archive', 'failed', 'given up: its worker died ' .. died .. ' times'}
  end
  if call('HEXISTS', task .. id, 'msg') == 0 then
    lost[#lost + 1] = id
  elseif ends then
    local msg, unique = load_short(id, longest)
    ending[#ending + 1] = {id, msg, unique, ends}
  else
    back[#back + 1] = {id, died}
  end
end
local kept = {} -- what an interrupted turn had done, in this run or in one before
if #ending > 0 and verdict and verdict[1] == 'complete' then
  -- What is longer than this would hold up Redis.
  local stored = call('STRLEN', partial) <= 4 * 1024 * 1024 and call('GET', partial)
  local ok, p = try(cjson.decode, stored or '')
  if ok and type(p) == 'table' and p.v == 1 and type(p.messages) == 'table' and p.messages[1] == own_id(prefix, in_turn[1] or '')
    and type(p.entries) == 'table' then
    kept = p.entries
  end
  -- Without that the transcript would know nothing of the message: let it be seen.
  if #kept == 0 then verdict[1] = 'archive' end
end

local due = special and due_tasks(now) or {}
local h, gone, wait = false, 0, false
if #back > 0 then
  h = look_at(back[#back][1])
  h[4], h[5] = (tonumber(h[4]) or 0) + 1, false
else
  h, gone = head(due)
end
local group = {}
if h and h[7] then
  -- What a dead owner has left, and what is due, is settled first.
  if #left == 0 and #due == 0 and not dead and gone == 0 then
    local ids, batch = call('LRANGE', pending, -MOST, -1), {}
    for i = #ids, 1, -1 do
      local bytes = too_long(ids[i], longest)
      if not bytes then break end
      batch[#batch + 1] = {ids[i], bytes, lock_of(ids[i])}
    end
    call('ZCARD', archived)
    for _, t in ipairs(batch) do
      call('RPOP', pending)
      archive_too_long(t, prefix, ARGV[11], longest, now)
    end
    return {'again'}
  end
  h = false
end
if h then
  group, wait = gather(h, gone, now, ARGV[18])
  wait = held(h[1], hold, now) or wait
end
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

if not call('SET', sentinel, token, 'NX', 'PX', ARGV[3]) then return {'held', ttl} end

-- A turn that died before it could say that it had started is announced now.
if dead and string.match(r[15] or '', '^(%d+) [1-9]') ~= fence then
  local named = {}
  for _, id in ipairs(in_turn) do named[#named + 1] = quote(own_id(prefix, id)) end
  announce(run, events, ARGV[11], '{"type":"turn_started","session_id":"' .. last_sid ..
    '","turn":"' .. prefix .. fence .. '","fence":' .. fence .. ',"messages":[' .. table.concat(named, ',') .. ']}')
end
for _, id in ipairs(lost) do call('LREM', active, 1, id) end -- the newest first, as they stand
for _, e in ipairs(ending) do
  local id, seconds, keep, ends = e[1], math.floor(now / 1000), tonumber(ARGV[12]), e[4]
  local outcome = '{"type":"turn_ended","status":"' .. ends[2] .. '","session_id":"' .. last_sid .. '","turn":"' .. prefix .. fence ..
    '","fence":' .. fence .. ',"messages":[' .. quote(own_id(prefix, id)) .. '],"error":"' .. ends[3] .. '"}'
  call('LREM', active, 1, id)
  if ends[1] == 'archive' then
    archive(id, e[2], e[3], ends[3], outcome, now)
  else
    if keep > 0 then
      call('HSET', task .. id, 'state', 'completed', 'result', outcome, 'msg', completed_msg(e[2], keep, seconds))
      call('ZADD', completed, int(seconds + keep), id)
    else
      call('DEL', task .. id)
    end
    if e[3] then call('DEL', e[3]) end
    add(processed, processed_day, 1)
  end
  pcall('HDEL', followups, own_id(prefix, id))
  announce(run, events, ARGV[11], outcome)
end
for _, e in ipairs(kept) do
  if type(e) == 'string' and tonumber(pcall('RPUSH', transcript .. last_sid, e)) then entries = entries + 1 end
end
for _, b in ipairs(back) do
  put_back(b[1], prefix)
  pcall('HINCRBY', task .. b[1], 'redelivered', 1)
  if b[2] > 0 then call('HSET', task .. b[1], 'deaths', b[2]) end
end
if #left > 0 or dead then call('DEL', lease) end
if verdict then call('DEL', partial) end
if dead and rotated then leave_conversation() end
-- What an agent has kept of a turn that is taken back is void, as after an undo.
if dead and r[14] == fence then entries = entries + 1 end
add(processed, processed_day, tonumber(r[12]) or 0)
if crashed then store_interruption(m) end
forward(due, now)
if gone > 0 then call('LTRIM', pending, 0, -1 - gone) end -- ids without a task

if not h or wait then
  call('DEL', sentinel)
  call('HSET', run, 'token', '', 'phase', 'idle', 'done', '0', 'entries', int(entries))
  if crashed and policy_suspends and not m.suspended then call('HSET', resume, 'suspended', '1', 'carried', m.interruptions) end
  local at = wait or next_at(hold, now)
  if at and at <= now then return {'again'} end
  if at then return {'wait', at} end
  return {'empty'}
end

-- A suspended session begins anew: another transcript, the same queue and lock.
-- Where a crash alone suspended it, its interruptions are still counted: the
-- message may be what kills the workers.
local reset, mark, marked_at = '', '', m.marked_at or now
if m.suspended or crashed and policy_suspends then
  sid, reset = false, 'suspended'
  call('DEL', resume, partial)
  call('HDEL', record, 'title', 'title_by')
  forget_notes()
  rec[4] = false
  local carried = m.carried or not m.suspended and m.interruptions
  if carried then call('HSET', resume, 'interruptions', carried) end
elseif m.pending and not (dead and rotated) then
  mark = m.reason ~= '' and m.reason or 'restart_timeout'
end
if not sid then sid = ARGV[10] end
if sid ~= r[7] then entries = 0 end

fence = int(next_fence(math.max(tonumber(fence) or 0, tonumber(rec[2]) or 0), now))
local ids, told = take(group, now)
if special then
  for _, t in ipairs(group) do pcall('HDEL', followups, own_id(prefix, t[1])) end
end
-- A small hash is searched from its beginning: what finish uses comes first.
-- What names a fence or an id (stop, interrupt, seq, hold) needs no clearing.
call('HSET', run, 'token', token, 'fence', fence, 'entries', int(entries), 'done', '0',
  'ids', ids, 'phase', phase, 'sid', sid, 'started_at', int(now),
  'worker', ARGV[4], 'mode', ARGV[7], 'cap', ARGV[8], 'drop', ARGV[13], 'debounce', ARGV[14], 'warm', ARGV[16])
if (r[13] or '') ~= '' then call('HSET', run, 'rotated', '') end
if special or crashed or (r[16] or '') ~= '' then
  call('HSET', run, 'special', call('EXISTS', resume, partial) > 0 and '1' or '')
end
if (r[10] or '') ~= reset or (r[11] or '') ~= mark then call('HSET', run, 'reset', reset, 'resume', mark) end
if rec[3] then
  call('HSET', record, 'session_id', sid, 'fence', fence, 'updated_at', int(now))
else
  call('HSET', record, 'v', '1', 'session_id', sid, 'fence', fence, 'updated_at', int(now), 'created_at', int(now))
end
return {'turn', now, tonumber(fence), sid, entries, told_notes(rec[4]), told, reset, mark, now - marked_at}

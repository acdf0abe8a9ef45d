-- finish: a turn has ended. Its messages are acked or archived, its entries
-- appended, its reply is announced; then the next message is taken under the
-- same sentinel and a new fence, or the sentinel is released. All or nothing.
-- The script that archives, or that is given messages to put back, is this one with
-- archive.lua before it: what is not defined costs nothing.
--
-- ARGV[4] outcome, JSON: the event and the tasks' result
-- ARGV[5] the turn's start, JSON, if it was not announced yet, or ''
-- ARGV[6] caps of the event stream and of the transcript, a transcript's TTL, ms, how
--         many messages a turn has at most and how many bytes their tasks have, how many
--         bytes one task's msg may have, how much memory a transcript may take, and of the
--         event stream which events are large and how many bytes these have, see
--         events.lua, separated by spaces
-- ARGV[7] phase of the next turn; '': release, take no other
-- ARGV[8] JSON object:
--   ttl        the sentinel's, ms
--   archive    the reason, if the messages are archived
--   retention  seconds
--   done       a finished turn: clears mark and interruptions
--   sid        the turn's session id
--   noted      it was told of dropped messages at its beginning, or was to be: there
--              may be more
--   told       of how many ids it has told its agent, of those that were dropped
--   omitted    the record's omitted when it was told of them
--   ending     number of messages that end
--   back       number of steered messages that go back to their places in the line, or
--              are archived if a /stop was meant for this turn
--   prefix     of turn ids
--   result     JSON, of a turn of many messages: what those behind the first one get
--              as their result, in place of the outcome
-- ARGV[9...] the ids of both, then entries
--
-- Answers {'next', now, fence, session id, entries so far, what was dropped and
-- messages as in claim}, {'released', when it can be claimed again (ms,
-- 0: never), now}, or {'lost'}.
--
-- Plain ends write statistics every few turns; until then run counts them, and a
-- dead owner's are written by the next claim.

local now = now_ms()
local _, most, ttl, turn, msg_most, memory = string.match(ARGV[6], '(%d+) (%d+) (%d+) (%d+ %d+) (%d+) (%d+)')
longest = tonumber(msg_most)

if not owned then
  local answer = answered()
  if answer == 'released' then return {'released', next_at(r[5], now) or 0, now} end
  if answer == 'next' and r[1] == token and owns(sentinel, token) then
    local t = call('HMGET', run, 'ids', 'sid')
    return {'next', now, tonumber(r[2]), t[2], tonumber(r[3]) or 0, told_notes(call('HGET', record, 'dropped')), taken(cjson.decode(t[1]), now)}
  end
  return {'lost'}
end

local rest = cjson.decode(ARGV[8])
local release, prefix, seconds = ARGV[7] == '', rest.prefix, math.floor(now / 1000)
local nids, nback, keep, complete = rest.ending, rest.back, rest.retention, not rest.archive
local entry, last = 9 + nids + nback, #ARGV
local nentries = last - entry + 1

local acks, lost = {}, {}
for i = 9, 8 + nids do
  local msg, unique = load(ARGV[i])
  if msg then
    acks[#acks + 1] = {ARGV[i], msg, unique, i > 9 and rest.result or ARGV[4]}
  else -- somebody has deleted the task
    lost[#lost + 1] = ARGV[i]
  end
end

-- In most turns there is none of these.
local special = rest.noted or call('EXISTS', paused, scheduled, retry, followups, resume, partial) > 0
local due = special and due_tasks(now) or {}
local h, gone, group, dropped = false, 0, {}, ''
local back = false -- see untaken.lua
local stopped_too = {} -- the turn has ended before it heard of the /stop, but these have not begun
if nback > 0 and call('HGET', run, 'stop') == fence then
  for i = 9 + nids, 8 + nids + nback do
    local msg, unique = load(ARGV[i])
    stopped_too[#stopped_too + 1] = {ARGV[i], msg, unique}
  end
  nback = 0
  call('ZCARD', archived)
end
if nback > 0 then
  back = places(ARGV, 9 + nids, 8 + nids + nback, prefix)
  if back.head and not release and call('EXISTS', paused) == 0 then
    h = look_at(back.head)
    -- What is collected is gathered when all are back: by the next claim.
    if not h[2] or h[5] or h[7] or held(h[1], r[5], now) then h = false end
    group[1] = h
  end
elseif release or special and call('EXISTS', paused) == 1 then
  call('LLEN', pending)
else
  h, gone = head(due)
  if h and h[7] then h = false end -- too long: the next claim archives it
  if h then
    local wait
    group, wait = gather(h, gone, now, turn)
    if wait or held(h[1], r[5], now) then h = false end
  end
end
if special then dropped = call('HGET', record, 'dropped') or '' end
local untold, omitted_told = false, 0 -- what stays of them for later turns
if rest.told > 0 and dropped ~= '' then untold, omitted_told = untold_notes(dropped, rest.told, rest.omitted) end

-- The first writes free; those that a wrong type may still fail are undone.
local bin, score = completed, int(seconds + keep)
if not complete then bin, score = archived, int(seconds) end
local done, broken = {}, false
if #acks == 0 then call('PEXPIRE', sentinel, rest.ttl) end
for _, a in ipairs(acks) do
  if call('LREM', active, '-1', a[1]) == 1 then -- the oldest is the last
    done[#done + 1] = a
    broken = keep > 0 or not complete
    broken = broken and pcall('ZADD', bin, score, a[1])
    if broken and type(broken) == 'table' and broken.err then break end
    broken = false
  end
end
local len = 0
for i = entry, last, 1000 do -- unpack has a limit
  if broken then break end
  len = pcall('RPUSH', transcript, unpack(ARGV, i, math.min(i + 999, last)))
  if type(len) == 'table' then broken = len end
end
if broken then
  for i = #done, 1, -1 do
    pcall('ZREM', bin, done[i][1])
    call('RPUSH', active, done[i][1])
  end
  return broken
end

for _, id in ipairs(lost) do
  call('LREM', active, '-1', id)
  pcall('ZREM', lease, id)
  pcall('HDEL', followups, own_id(prefix, id))
end
if #done < #acks then -- somebody has taken them out of active
  for _, a in ipairs(acks) do pcall('ZREM', lease, a[1]) end
end
for _, a in ipairs(done) do
  local id = a[1]
  pcall('ZREM', lease, id)
  if special then pcall('HDEL', followups, own_id(prefix, id)) end
  if not complete then
    archive(id, a[2], a[3], rest.archive, a[4], now)
  else
    if keep > 0 then
      call('HSET', task .. id, 'state', 'completed', 'result', a[4], 'msg', completed_msg(a[2], keep, seconds))
    else
      call('DEL', task .. id)
    end
    if a[3] then call('DEL', a[3]) end
  end
end
if gone > 0 then call('LTRIM', pending, 0, -1 - gone) end -- ids without a task
if back then return_untaken(back, prefix) end
local rotated = r[6] and r[6] ~= ''
if special then
  call('DEL', partial)
  if rest.done then
    call('DEL', resume)
  elseif rotated then -- the mark was the old conversation's
    call('HDEL', resume, 'pending', 'reason', 'marked_at')
  end
  if untold then
    dropped = untold
    pcall('HSET', record, 'dropped', dropped, 'omitted_told', int(omitted_told))
  end
end
if rest.done then call('HSET', run, 'special', r[7] or '') end -- the leases are gone, too
if len > tonumber(most) then -- a lower cap than before takes effect by and by
  call('LTRIM', transcript, int(math.min(len - most, nentries + 1000)), '-1')
end
if nentries > 0 then
  local size = 0
  for i = entry, last do size = size + #ARGV[i] end
  bound_transcript(transcript, math.min(len, tonumber(most)), tonumber(memory), (tonumber(r[3]) or 0) + nentries, nentries, size)
end
if nentries > 0 and (len == nentries or not h) then call('PEXPIRE', transcript, ttl) end
forward(due, now)

-- The count is that of the session id which the next turn has: a rotation in
-- mid-turn takes effect now.
local sid, entries = rest.sid, (tonumber(r[3]) or 0) + nentries
if rotated then sid, entries = r[6], 0 end
add(processed, processed_day, (tonumber(r[4]) or 0) + (complete and #done or 0))

announce(run, events, ARGV[6], ARGV[4], ARGV[5])
for _, t in ipairs(stopped_too) do
  pcall('ZREM', lease, t[1])
  if call('LREM', active, '1', t[1]) == 1 then
    archive_as_stopped(t, prefix, ARGV[6], now)
  else
    pcall('HDEL', followups, own_id(prefix, t[1]))
  end
end

if not h then
  call('DEL', sentinel)
  if special and call('EXISTS', pending) == 0 then call('UNLINK', followups) end
  call('HSET', run, 'token', '', 'phase', 'idle', 'last', token .. ' ' .. fence .. ' released',
    'sid', sid, 'entries', int(entries), 'done', '0', 'ended_at', int(now))
  return {'released', next_at(r[5], now) or 0, now}
end

local following = int(next_fence(fence, now))
local ids, told = take(group, now)
if special then
  for _, t in ipairs(group) do pcall('HDEL', followups, own_id(prefix, t[1])) end
end
call('HSET', run, 'fence', following, 'entries', int(entries), 'done', '0', 'ids', ids,
  'last', token .. ' ' .. fence .. ' next', 'started_at', int(now))
if ARGV[7] ~= 'running' then call('HSET', run, 'phase', ARGV[7]) end
if rotated then call('HSET', run, 'sid', sid, 'rotated', '') end
return {'next', now, tonumber(following), sid, entries, told_notes(dropped), told}

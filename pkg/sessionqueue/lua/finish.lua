-- finish: a turn has ended. Its messages are acked or archived, its entries
-- appended, its reply is announced; then the next message is taken under the
-- same sentinel and a new fence, or the sentinel is released. All or nothing.
--
-- ARGV[4] sentinel's TTL, ms            ARGV[12] TTL of a transcript, ms
-- ARGV[5] 'complete' or 'archive'       ARGV[13] '1': release, take no other
-- ARGV[6] the reason, if archived       ARGV[14] phase of the next turn
-- ARGV[7] retention, seconds            ARGV[15] prefix of turn ids
-- ARGV[8] outcome, JSON: the event      ARGV[16] '1': a finished turn, clears
--         and the tasks' result                  mark and interruptions
-- ARGV[9] cap of the event stream       ARGV[17] the turn's session id
-- ARGV[10] number of entries            ARGV[18] number of message ids, n
-- ARGV[11] cap of the transcript        ARGV[19] retention and completed_at, as
--                                                asynq's message has them
--                                       ARGV[20...] n task ids, then the entries
--
-- Answers {'next', now, fence, message as in claim, entries so far, session id},
-- {'released', when it can be claimed again (ms, 0: never), now}, or {'lost'}.
--
-- Statistics are written every few turns and at the release; until then run
-- counts them, and a dead owner's are written by the next claim.

local now = now_ms()

if not owned() then
  local answer = answered()
  if answer == 'released' then return {'released', next_at(r[5], now) or 0, now} end
  if answer == 'next' and r[1] == token and owns(sentinel, token) then
    local t = call('HMGET', run, 'ids', 'sid')
    return {'next', now, tonumber(r[2]), taken(cjson.decode(t[1])[1], now), tonumber(r[3]) or 0, t[2]}
  end
  return {'lost'}
end

local cap, prefix, seconds = ARGV[9], ARGV[15], math.floor(now / 1000)
local nids, nentries, keep = tonumber(ARGV[18]), tonumber(ARGV[10]), tonumber(ARGV[7])
local complete = ARGV[5] == 'complete'

local acks = {}
for i = 20, 19 + nids do
  local msg, unique = load(ARGV[i])
  if msg then acks[#acks + 1] = {ARGV[i], msg, unique} end
end

-- In most turns there is none of these.
local special = call('EXISTS', paused, scheduled, retry, followups, resume) > 0
local due = special and due_tasks(now) or {}
local h, gone = false, 0
if ARGV[13] ~= '1' and not (special and call('EXISTS', paused) == 1) then
  h, gone = head(due)
  if h and held(h[1], r[5], now) then h = false end
end
if special then call('HLEN', followups) end
call('ZCARD', lease)
if not h then call('LLEN', pending) end

-- The first writes free; those that a wrong type may still fail are undone.
local bin, score = completed, int(seconds + keep)
if not complete then bin, score = archived, int(seconds) end
local done, broken = {}, false
if #acks == 0 then call('PEXPIRE', sentinel, ARGV[4]) end
for _, a in ipairs(acks) do
  if call('LREM', active, 1, a[1]) == 1 then
    done[#done + 1] = a
    broken = keep > 0 or not complete
    broken = broken and pcall('ZADD', bin, score, a[1])
    if broken and type(broken) == 'table' and broken.err then break end
    broken = false
  end
end
local len = 0
for i = 20 + nids, 19 + nids + nentries, 1000 do -- unpack has a limit
  if broken then break end
  len = pcall('RPUSH', transcript, unpack(ARGV, i, math.min(i + 999, 19 + nids + nentries)))
  if type(len) == 'table' then broken = len end
end
if broken then
  for i = #done, 1, -1 do
    pcall('ZREM', bin, done[i][1])
    call('RPUSH', active, done[i][1])
  end
  return broken
end

for _, a in ipairs(done) do
  local id = a[1]
  call('ZREM', lease, id)
  if special then call('HDEL', followups, own_id(prefix, id)) end
  if not complete then
    archive(id, a[2], a[3], ARGV[6], ARGV[8], now)
  else
    if keep > 0 then
      call('HSET', task .. id, 'state', 'completed', 'result', ARGV[8], 'msg', a[2] .. ARGV[19])
    else
      call('DEL', task .. id)
    end
    if a[3] then call('DEL', a[3]) end
  end
end
if special and ARGV[16] == '1' then call('DEL', resume) end
if len > tonumber(ARGV[11]) then call('LTRIM', transcript, -tonumber(ARGV[11]), -1) end
if nentries > 0 and (len == nentries or not h) then call('PEXPIRE', transcript, ARGV[12]) end
forward(due, now)

-- The count is that of the session id which the next turn has: a rotation in
-- mid-turn takes effect now.
local sid, entries = ARGV[17], (tonumber(r[3]) or 0) + nentries
local rotated = r[6] and r[6] ~= ''
if rotated then sid, entries = r[6], 0 end
local counted = (tonumber(r[4]) or 0) + (complete and #done or 0)
if not h or counted >= 10 then
  add(processed, processed_day, counted)
  counted = 0
end

if not h then
  skip(gone)
  call('DEL', sentinel)
  if special and call('EXISTS', pending) == 0 then call('DEL', followups) end
  call('HSET', run, 'token', '', 'phase', 'idle', 'last', token .. ' ' .. fence .. ' released',
    'sid', sid, 'entries', int(entries), 'done', '0')
  pcall('HSET', record, 'updated_at', int(now))
  pcall('XADD', events, 'MAXLEN', '~', cap, '*', 'e', ARGV[8])
  return {'released', next_at(r[5], now) or 0, now}
end

local following = int(next_fence(fence, now))
local ends = lease_end(now, tonumber(ARGV[4]))
local message = take(h, gone, now, ends)
if special then call('HDEL', followups, own_id(prefix, h[1])) end
call('HSET', run, 'fence', following, 'entries', int(entries), 'done', int(counted), 'ids', '[' .. quote(h[1]) .. ']',
  'last', token .. ' ' .. fence .. ' next', 'started_at', int(now))
if ARGV[14] ~= 'running' then call('HSET', run, 'phase', ARGV[14]) end
if rotated then call('HSET', run, 'sid', sid, 'rotated', '') end
pcall('XADD', events, 'MAXLEN', '~', cap, '*', 'e', ARGV[8], 'n', started(prefix, following, sid, h[1]))
return {'next', now, tonumber(following), message, entries, sid}

-- Code generated from ../lua/unclaim.lua by go generate; DO NOT EDIT.
--
-- unclaim: takes back a claim with a lost reply, by its token. Its messages go back to the head of
-- the queue as they were, because no agent got them; a turn with steps is parked. If the end of that
-- turn was requested meanwhile, nothing goes back: the next claim ends the turn like a dead owner's.
--
-- KEYS sentinel run followups resume journal pending active lease scheduled retry
-- ARGS
--   s.task       prefix of the session's task hashes
--   s.prefix     of task ids
--   s.token      of the claim
--   gives flag   the owner gives the turn back, and ends it itself if that was requested
-- RETURNS
--   'released' at:int now:int     at: when it can be claimed again, ms; 0: never
--   'requested' request    gives: 'stop', 'interrupt' or 'rollback': end the turn that way instead;
--     nothing is written
--   'lost'                the claim was not carried out, or its sentinel has expired

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_followups, s_resume, s_journal, s_pending, s_active, s_lease, s_scheduled, s_retry, s_task, s_prefix, s_token = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], ARGV[1], ARGV[2], ARGV[3]
local function fields_1(key)
  local v = call('HMGET', key, 'token', 'ids', 'hold', 'reset', 'last', 'fence', 'phase', 'stop', 'rollback', 'interrupt')
  return {token = v[1], ids = v[2], hold = v[3], reset = v[4], last = v[5], fence = v[6], phase = v[7], stop = v[8], rollback = v[9], interrupt = v[10]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'closed', 'fence')
  return {closed = v[1], fence = v[2]}
end

-- held_back(id, hold, now) returns until when (ms) the head of the queue has to wait after a
-- failure, or false. hold is the run record's "ms id".
local function held_back(id, hold, now)
  if not hold or hold == '' then return false end
  local at, who = string.match(hold, '^(%d+) (.*)$')
  at = tonumber(at)
  if who == id and at > now then return at end
  return false
end

-- next_at(s, hold, now) returns when a message can be taken: now or earlier, a later ms, or false
-- for never. For messages that are collected the time may be too early: the claim finds the end of
-- their quiet window.
local function next_at(s_pending, s_retry, s_run, s_scheduled, s_task, hold, now)
  local id = call('LINDEX', s_pending, '-1')
  if id then
    local at, quiet = held_back(id, hold, now), pcall('HGET', s_task .. id, 'quiet')
    if at or type(quiet) ~= 'string' then return at or now end
    return tonumber(string.match(quiet, '^%d+')) or now
  end
  if call('HGET', s_run, 'stopping') == '1' then return now end -- for the claim to archive
  if call('EXISTS', s_scheduled, s_retry) == 0 then return false end
  local at = false
  for _, zset in ipairs({s_scheduled, s_retry}) do
    local z = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if z[2] and (not at or tonumber(z[2]) * 1000 < at) then at = tonumber(z[2]) * 1000 end
  end
  return at
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

-- parked_until(run) returns until when (ms) a parked turn waits, 0 if its end was requested, or false if
-- none is parked. A turn with steps is parked, without an owner, after a failure or a drain: its messages
-- stay in active, its journal says what it has done, and hold is until when.
local function parked_until(run)
  if run.phase ~= 'parked' then return false end
  if requested(run, run.fence) ~= '' then return 0 end
  return tonumber(string.match(run.hold or '', '^%d+') or 0)
end

-- claimable_at(s, run, now) returns when a turn can be taken, as next_at, or a parked one.
local function claimable_at(s_pending, s_retry, s_run, s_scheduled, s_task, run, now)
  local till = parked_until(run)
  if till then return math.max(till, now) end
  return next_at(s_pending, s_retry, s_run, s_scheduled, s_task, run.hold, now)
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- own_id(s, id) returns the message id of a task.
local function own_id(s_prefix, id)
  if string.sub(id, 1, #s_prefix) == s_prefix then return string.sub(id, #s_prefix + 1) end
  return id
end

-- requeue_message(s, id, as_it_was) puts a message of the turn back at the head of the queue, as a
-- separate turn, or with as_it_was the same as before the turn. Call it for the newest message
-- first. Returns false if the message has left the turn.
local function requeue_message(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, id, as_it_was)
  pcall('ZREM', s_lease, id)
  if call('LREM', s_active, 1, id) == 0 then return false end
  call('RPUSH', s_pending, id)
  call('HSET', s_task .. id, 'state', 'pending')
  if not as_it_was then call('HDEL', s_task .. id, 'quiet', 'first') end
  pcall('HDEL', s_followups, own_id(s_prefix, id)) -- that of a message that was steered in
  return true
end

local gives = ARGV[4] == '1'

local now = now_ms()
local run = fields_1(s_run)
local mine = s_token .. ' - released' -- no fence: the caller does not know it
if run.last == mine then return {'released', run.token == s_token and now or claimable_at(s_pending, s_retry, s_run, s_scheduled, s_task, run, now) or 0, now} end
if run.token ~= s_token or not (redis.call('GET', s_sentinel) == s_token) then return {'lost'} end
local ids, back = cjson.decode(run.ids), {}
local request = requested(run, run.fence)
local ends = request ~= ''
if gives and ends then return {'requested', request} end
for i = #ids, 1, -1 do -- newest first
  if not ends and call('HEXISTS', s_task .. ids[i], 'msg') == 1 then back[#back + 1] = ids[i] end
end
call('LLEN', s_active)
call('LLEN', s_pending)
local carried = call('HGET', s_resume, 'interruptions')
local journal = #back > 0 and fields_2(s_journal) or {}
local park = journal.closed and journal.fence == run.fence

call('DEL', s_sentinel)
for _, id in ipairs(back) do
  if park then pcall('ZREM', s_lease, id) else requeue_message(s_active, s_followups, s_lease, s_pending, s_prefix, s_task, id, true) end
end
if run.reset == 'suspended' then -- the turn that begins a new transcript is still to come
  call('HSET', s_run, 'special', '1')
  call('HSET', s_resume, 'suspended', '1')
  if carried then call('HSET', s_resume, 'carried', carried) end
end
if ends then
  call('HSET', s_run, 'reset', '', 'last', mine)
  return {'released', now, now}
end
if park then
  call('HSET', s_run, 'token', '', 'phase', 'parked', 'hold', '0 ' .. ids[1], 'reset', '', 'last', mine)
  return {'released', now, now}
end
call('HSET', s_run, 'token', '', 'phase', 'idle', 'reset', '', 'last', mine)
return {'released', next_at(s_pending, s_retry, s_run, s_scheduled, s_task, run.hold, now) or 0, now}

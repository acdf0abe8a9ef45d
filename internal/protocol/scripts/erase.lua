-- Code generated from ../lua/erase.lua by go generate; DO NOT EDIT.
--
-- erase: removes all keys of a session without an owner. Messages are erased a batch at a time:
-- first ended ones, last waiting ones, the newest first. The call that finds less than a batch
-- erases the rest.
--
-- KEYS sentinel run record followups resume events transcript partial journal pending active lease paused scheduled retry completed
-- KEYS processed processed_day archived failed failed_day stopped state owed outbox deliveries undelivered audit others...
-- ARGS
--   s.task           prefix of the session's task hashes
--   s.prefix         of task ids
--   idem             prefix of the keys of ids that senders named
--   fence            of the last turn when the keys were looked up, '': none
--   size number     how many tasks a batch has
--   unused number   erase nothing unless no message waits and the last turn ended this many ms ago;
--     0: whatever waits
--   last flag        these are all its keys; else this call erases at most a batch
--   keep flag        erase nothing while a delivery is owed or undelivered
-- RETURNS
--   'gone'
--   'held'
--   'used' at:int        look again then, ms; 0: unknown
--   'owed' promised:int stored:int     how many outcomes are owed, and how many are not delivered
--   'changed'        a turn has run since the keys were looked up, and may have made others
--   'batch' n:int        how many messages are erased: call again

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local others = {}
for i = 29, #KEYS do others[i - 28] = KEYS[i] end
local s_sentinel, s_run, s_record, s_followups, s_resume, s_events, s_transcript, s_partial, s_journal, s_pending, s_active, s_lease, s_paused, s_scheduled, s_retry, s_completed, s_processed, s_processed_day, s_archived, s_failed, s_failed_day, s_stopped, s_state, s_owed, s_outbox, s_deliveries, s_undelivered, s_audit, s_task, s_prefix = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23], KEYS[24], KEYS[25], KEYS[26], KEYS[27], KEYS[28], ARGV[1], ARGV[2]

-- held_lock(id, unique) returns the task's unique key if the task still holds that lock, or false.
local function held_lock(id, unique)
  return unique and unique ~= '' and call('GET', unique) == id and unique
end

-- lock_of(s, id) returns the unique lock that a task holds, or false. It does not read the msg.
local function lock_of(s_task, id) return held_lock(id, call('HGET', s_task .. id, 'unique_key')) end

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

local idem, fence, size, unused, last, keep = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1', ARGV[8] == '1'

if call('EXISTS', s_sentinel) == 1 then return {'held'} end
if unused > 0 then
  local at = (tonumber(call('HGET', s_run, 'ended_at') or 0) or 0) + unused
  if call('LLEN', s_pending) + call('LLEN', s_active) + call('ZCARD', s_scheduled) + call('ZCARD', s_retry) > 0 then at = 0 end
  if at == 0 or at > now_ms() then return {'used', at} end
end
if (call('HGET', s_run, 'fence') or '') ~= fence then return {'changed'} end
local sequence = call('HGET', s_deliveries, 'seq') -- the next one begins with Redis' clock, too
if keep then
  local promised, stored = call('HLEN', s_owed), call('ZCARD', s_outbox) + call('ZCARD', s_undelivered)
  if promised + stored > 0 then return {'owed', promised, stored} end
end
local ids, parts = {}, {}
local function collect(key, range)
  local part = #ids < size and call(range, key, 0, size - #ids - 1) or {}
  parts[#parts + 1] = {key = key, range = range, n = #part}
  for _, id in ipairs(part) do ids[#ids + 1] = id end
end
for _, zset in ipairs({s_archived, s_completed, s_retry, s_scheduled}) do collect(zset, 'ZRANGE') end
collect(s_stopped, 'LRANGE')
collect(s_pending, 'LRANGE')
collect(s_active, 'LRANGE') -- a dead owner's
local locks = {}
for _, id in ipairs(ids) do
  local unique = lock_of(s_task, id)
  if unique then locks[#locks + 1] = unique end
end
for _, id in ipairs(ids) do call('UNLINK', s_task .. id, idem .. own_id(s_prefix, id)) end
for _, unique in ipairs(locks) do call('DEL', unique) end
for _, key in ipairs(others) do call('UNLINK', key) end
-- After this, fences begin with Redis' clock again, so the last one must be in the past. Turns of
-- less than a ms run a little ahead of the clock. A fence further ahead was not written by
-- Turnstile.
local ahead = math.max(tonumber(fence) or 0, tonumber(sequence) or 0) - now_ms()
if #ids < size and last and (ahead < 0 or ahead > 1000) then
  for i = 1, #KEYS - #others do call('UNLINK', KEYS[i]) end
  return {'gone'}
end
for _, p in ipairs(parts) do
  if p.n > 0 and p.range == 'LRANGE' then
    call('LTRIM', p.key, p.n, -1)
  elseif p.n > 0 then
    call('ZREMRANGEBYRANK', p.key, 0, p.n - 1)
  end
end
-- A claim must not archive messages of a /stop if none are left.
if call('EXISTS', s_stopped) == 0 and call('HGET', s_run, 'stopping') == '1' then call('HSET', s_run, 'stopping', '') end
return {'batch', #ids}

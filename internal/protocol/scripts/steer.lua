-- Code generated from ../lua/steer.lua by go generate; DO NOT EDIT.
--
-- steer: makes waiting messages that are to be steered in a part of the running turn: they are
-- acked or redelivered with it. It searches near either end of the queue. A message in the middle
-- of a longer queue, or without room in the turn, waits and becomes a separate turn.
--
-- KEYS sentinel run followups pending active
-- ARGS
--   s.task               prefix of the session's task hashes
--   s.prefix             of task ids
--   s.token
--   s.fence int
--   s.longest number     how many bytes one task's msg may have
--   ttl int              the sentinel's, ms
--   most number          messages of a turn
--   room number          bytes of their tasks
--   known list           ids of the turn's tasks that the owner knows of
-- RETURNS
--   'ok' messages:message more:flag     messages: those that the owner does not know of, as they are new or an
--     earlier reply was lost; more: 1 if there may be more
--   'lost'
--   message: id msg age:ms redelivered:int unique:flag steer:flag     as in claim

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_followups, s_pending, s_active, s_task, s_prefix, s_token, s_fence, s_longest = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local function fields_1(key)
  local v = call('HMGET', key, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route', 'steer')
  return {msg = v[1], seen = v[2], redelivered = v[3], quiet = v[4], unique_key = v[5], route = v[6], steer = v[7]}
end
local function fields_2(key)
  local v = call('HMGET', key, 'token', 'fence', 'ids', 'stop', 'rollback', 'interrupt')
  return {token = v[1], fence = v[2], ids = v[3], stop = v[4], rollback = v[5], interrupt = v[6]}
end
local function fields_3(key)
  local v = call('HMGET', key, 'state', 'steer')
  return {state = v[1], steer = v[2]}
end

-- NEAR is how many ids at either end of a long queue are searched.
local NEAR = 500

-- too_long(s, id) returns how many bytes a task's msg has, if these are more than s.longest, or
-- false. Such a msg is not read: it may have tens of megabytes.
local function too_long(s_longest, s_task, id)
  local bytes = call('HSTRLEN', s_task .. id, 'msg')
  return bytes > s_longest and bytes
end

-- load_task(s, id) returns a task with the fields that a claim needs. msg is false if the task is
-- gone. If the msg is too long, msg is '' and too_long is its size in bytes.
local function load_task(s_longest, s_task, id)
  local bytes = too_long(s_longest, s_task, id)
  if bytes then return {id = id, msg = '', too_long = bytes} end
  local t = fields_1(s_task .. id)
  t.id = id
  return t
end

-- message_record(now, id, msg, seen, redelivered, unique_key, steer) returns the record of a message for
-- the worker that takes it.
local function message_record(now, id, msg, seen, redelivered, unique_key, steer)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key or steer then
    return {id, msg, age, tonumber(redelivered) or 0, unique_key and 1 or 0, steer and 1 or 0}
  end
  return {id, msg, age}
end

-- message_records(s, ids, now) returns the records of messages that were taken before.
local function message_records(s_longest, s_task, ids, now)
  local list = {}
  for i, id in ipairs(ids) do
    local t = load_task(s_longest, s_task, id)
    list[i] = message_record(now, id, t.msg, t.seen, t.redelivered, t.unique_key, t.steer)
  end
  return list
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

-- owned(s, run) returns whether the turn still belongs to this token and fence. If not, nothing may
-- be written.
local function owned(s_fence, s_sentinel, s_token, run)
  return run.token == s_token and run.fence == s_fence and (redis.call('GET', s_sentinel) == s_token)
end

-- requested(run, fence) returns 'stop', 'rollback' or 'interrupt' if that end of the turn was
-- requested, or ''.
local function requested(run, fence)
  if run.stop == fence then return 'stop' end
  if run.rollback == fence then return 'rollback' end
  if run.interrupt == fence then return 'interrupt' end
  return ''
end

local ttl, most, room = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local at = 9
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local known = list()

local run = fields_2(s_run)
if not owned(s_fence, s_sentinel, s_token, run) then return {'lost'} end
local now, ids, knows = now_ms(), cjson.decode(run.ids), {}
for _, id in ipairs(known) do knows[id] = true end

local steered, waiting = {}, call('LLEN', s_pending)

-- consider(id, from_end) returns whether the turn has room for more. It adds a message with the
-- mode steer to steered. from_end is LREM's count, for the nearer end: 1 the newest, -1 the oldest.
local function consider(id, from_end)
  local t, own = fields_3(s_task .. id), own_id(s_prefix, id)
  if t.state ~= 'pending' or not t.steer then return true end
  local e = call('HGET', s_followups, own)
  local from, to = string.find(e or '', '"state":"queued"', 1, true)
  if not from then return true end
  local bytes = call('HSTRLEN', s_task .. id, 'msg')
  if bytes > s_longest then return true end -- a claim archives it
  room = room - bytes
  if room < 0 or #ids + #steered >= most then return false end
  steered[#steered + 1] = {id = id, own = own, followup = string.sub(e, 1, from - 1) .. '"state":"steered"' .. string.sub(e, to + 1), from_end = from_end}
  return true
end

-- A turn that is to end takes no more messages: a /stop does not apply to later ones.
if requested(run, s_fence) == '' and #ids < most then
  for _, id in ipairs(ids) do room = room - call('HSTRLEN', s_task .. id, 'msg') end
  local fits = room > 0
  local oldest = fits and call('LRANGE', s_pending, -NEAR, -1) or {} -- newest first
  for i = #oldest, 1, -1 do
    fits = fits and consider(oldest[i], -1)
  end
  if fits and waiting > NEAR then
    local newest = call('LRANGE', s_pending, 0, math.min(NEAR, waiting - NEAR) - 1)
    for i = #newest, 1, -1 do
      fits = fits and consider(newest[i], 1)
    end
  end
  waiting = fits and waiting or 0
else
  waiting = 0
end
-- After steering, other messages move into the searched part of the queue.
local more = #steered > 0 and waiting > 2 * NEAR
call('LLEN', s_active)

call('PEXPIRE', s_sentinel, ttl)
for _, t in ipairs(steered) do
  if call('LREM', s_pending, t.from_end, t.id) == 1 then
    call('LPUSH', s_active, t.id)
    call('HSET', s_task .. t.id, 'state', 'active')
    call('HSET', s_followups, t.own, t.followup)
    ids[#ids + 1] = t.id
  end
end
if #steered > 0 then call('HSET', s_run, 'ids', cjson.encode(ids)) end
if not more then call('HDEL', s_run, 'steer') end
local new = {}
for _, id in ipairs(ids) do
  if not knows[id] then new[#new + 1] = id end
end
return {'ok', message_records(s_longest, s_task, new, now), more and 1 or 0}

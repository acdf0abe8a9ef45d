-- What every script of a session shares, after lockguard's prelude.
--
-- KEYS[1..19]  the session's keys, in the order of keys() in script.go; a script
--              that needs only the first of them is given those
-- ARGV[1]      prefix of the session's task hashes
--
-- A script reads and decodes all that it needs before its first write: what
-- cannot be read (a wrong type, a slot that migrates) then fails it while
-- nothing is written. Writes that may still fail on a key of a wrong type are
-- either the first, or undone, or of no weight (events, statistics).

local sentinel, run, record, followups, resume, events, transcript =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local pending, active, lease, paused, scheduled, retry, completed =
  KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local processed, processed_day, archived, failed, failed_day =
  KEYS[15], KEYS[16], KEYS[17], KEYS[18], KEYS[19]
local task = ARGV[1]
local call, pcall = redis.call, redis.pcall -- of pcall an error is the answer, a table with err

-- varint(n): n as protobuf writes it.
local function varint(n)
  local s = ''
  while n >= 128 do
    s = s .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return s .. string.char(n)
end

-- Changes to asynq's TaskMessage. Of a field that occurs twice the last counts,
-- so a change is an append: 6 retried, 7 error_msg, 11 last_failed_at,
-- 12 retention, 13 completed_at.
local function with_error(msg, why, seconds)
  return msg .. '\58' .. varint(#why) .. why .. '\88' .. varint(seconds)
end
local function with_completion(msg, keep, seconds)
  return msg .. '\96' .. varint(keep) .. '\104' .. varint(seconds)
end

-- load(id): the task's msg (false: the task is gone) and its unique lock, if it
-- still holds one.
local function load(id)
  local t = call('HMGET', task .. id, 'msg', 'unique_key')
  local unique = t[2]
  if unique and (unique == '' or call('GET', unique) ~= id) then unique = false end
  return t[1], unique
end

-- add(counter, day, n): asynq's statistics; a day's counter lives for 90 days.
local function add(counter, day, n)
  if n == 0 then return end
  if pcall('INCRBY', day, n) == n then call('EXPIRE', day, 90 * 24 * 3600) end
  pcall('INCRBY', counter, n)
end

-- archive(id, msg, unique, why, outcome, now): a dead letter. It forgets when it
-- was first seen, so that Run in asynqmon does not expire it again at once.
local function archive(id, msg, unique, why, outcome, now)
  local seconds = math.floor(now / 1000)
  call('ZADD', archived, int(seconds), id)
  call('HSET', task .. id, 'msg', with_error(msg, why, seconds), 'state', 'archived', 'result', outcome)
  call('HDEL', task .. id, 'pending_since', 'seen', 'redelivered')
  if unique then call('DEL', unique) end
  add(processed, processed_day, 1)
  add(failed, failed_day, 1)
end

-- own_id(prefix, id): the id by which its sender knows a task.
local function own_id(prefix, id)
  if string.sub(id, 1, #prefix) == prefix then return string.sub(id, #prefix + 1) end
  return id
end

-- quote(s): a JSON string.
local function quote(s)
  if string.find(s, '^[%w%-._:@+=~]*$') then return '"' .. s .. '"' end
  return cjson.encode(s)
end

-- started(prefix, fence, sid, id): the event of a turn that was taken.
local function started(prefix, fence, sid, id)
  return '{"type":"turn_started","session_id":"' .. sid .. '","turn":"' .. prefix .. fence ..
    '","fence":' .. fence .. ',"messages":[' .. quote(own_id(prefix, id)) .. ']}'
end

-- held(id, hold, now): until when (ms) the head of the line has to wait; hold is
-- run's "ms id". False: it need not.
local function held(id, hold, now)
  if not hold or hold == '' then return false end
  local at, who = string.match(hold, '^(%d+) (.*)$')
  at = tonumber(at)
  if who == id and at > now then return at end
  return false
end

-- next_at(hold, now): when something can be taken: now or earlier, a later ms,
-- or false for never.
local function next_at(hold, now)
  local id = call('LINDEX', pending, -1)
  if id then return held(id, hold, now) or now end
  if call('EXISTS', scheduled, retry) == 0 then return false end
  local at = false
  for _, zset in ipairs({scheduled, retry}) do
    local z = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if z[2] and (not at or tonumber(z[2]) * 1000 < at) then at = tonumber(z[2]) * 1000 end
  end
  return at
end

-- lease_end(now, ttl): the score of asynq's lease: the sentinel's end in seconds.
-- The half second tells Turnstile's leases from those of an asynq.Server.
local function lease_end(now, ttl) return string.format('%.1f', math.ceil((now + ttl) / 1000) + 0.5) end
local function foreign(score) return tonumber(score) % 1 == 0 end

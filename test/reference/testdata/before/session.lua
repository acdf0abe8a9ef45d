-- What most scripts of a session share, after keys.lua.

-- held_lock(id, unique): the task's unique key if it still holds that lock, or false.
local function held_lock(id, unique)
  return unique and unique ~= '' and call('GET', unique) == id and unique
end

-- load(id): the task's msg (false: the task is gone) and its unique lock, if it
-- still holds one.
local function load(id)
  local t = call('HMGET', task .. id, 'msg', 'unique_key')
  return t[1], held_lock(id, t[2])
end

-- too_long(id, most): how many bytes a task's msg has, if these are more than any may have;
-- else false. Such a msg is not read: it may have tens of megabytes.
local function too_long(id, most)
  local bytes = call('HSTRLEN', task .. id, 'msg')
  return bytes > most and bytes
end

-- lock_of(id): the unique lock that a task still holds, or false. The task itself,
-- which may be long, is not read.
local function lock_of(id) return held_lock(id, call('HGET', task .. id, 'unique_key')) end

-- add(counter, day, n): asynq's statistics; a day's counter lives for 90 days.
local function add(counter, day, n)
  if n == 0 then return end
  if pcall('INCRBY', day, n) == n then call('EXPIRE', day, 90 * 24 * 3600) end
  pcall('INCRBY', counter, n)
end

-- own_id(prefix, id): the id by which its sender knows a task.
local function own_id(prefix, id)
  if string.sub(id, 1, #prefix) == prefix then return string.sub(id, #prefix + 1) end
  return id
end

-- varint(n): n as protobuf writes it.
local function varint(n)
  local s = ''
  while n >= 128 do
    s = s .. string.char(n % 128 + 128)
    n = math.floor(n / 128)
  end
  return s .. string.char(n)
end

-- completed_msg(msg, keep, seconds): asynq's TaskMessage after its end, kept for so
-- many seconds. Of a field that occurs twice the last counts, so a change is an
-- append: 12 retention, 13 completed_at.
local function completed_msg(msg, keep, seconds)
  return msg .. '\96' .. varint(keep) .. '\104' .. varint(seconds)
end

-- quote(s): a JSON string.
local function quote(s)
  if string.find(s, '^[%w%-._:@+=~]*$') then return '"' .. s .. '"' end
  return cjson.encode(s)
end

-- was_rung(seen, seq): whether a sender has rung for the task that has these fields.
-- Else a follow-up with its id is of a task before it, which an operator has deleted.
local function was_rung(seen, seq) return seen or seq end

-- goes_first(own, first, seen, seq): whether a message interrupts or takes back, and so
-- goes to the front of the line, by the id that its sender knows and its task's fields;
-- and how many bytes were read for that.
local function goes_first(own, first, seen, seq)
  if first then return call('HEXISTS', followups, own) == 1, 0 end
  if not was_rung(seen, seq) then return false, 0 end
  -- Senders of an older version say so only in the follow-up, which has the text.
  local e = call('HGET', followups, own) or ''
  local found = string.find(e, '"mode":"interrupt"', 1, true) or string.find(e, '"mode":"rollback"', 1, true)
  return found ~= nil, #e
end

-- held(id, hold, now): until when (ms) the head of the line has to wait after a
-- failure; hold is run's "ms id". False: it need not.
local function held(id, hold, now)
  if not hold or hold == '' then return false end
  local at, who = string.match(hold, '^(%d+) (.*)$')
  at = tonumber(at)
  if who == id and at > now then return at end
  return false
end

-- next_at(hold, now): when something can be taken: now or earlier, a later ms,
-- or false for never. It may be too early for messages that are collected, for
-- which the claim finds the end of their quiet window.
local function next_at(hold, now)
  local id = call('LINDEX', pending, '-1')
  if id then
    local at, quiet = held(id, hold, now), pcall('HGET', task .. id, 'quiet')
    if at or type(quiet) ~= 'string' then return at or now end
    return tonumber(string.match(quiet, '^%d+')) or now
  end
  if call('HGET', run, 'stopping') == '1' then return now end -- for the claim to archive
  if call('EXISTS', scheduled, retry) == 0 then return false end
  local at = false
  for _, zset in ipairs({scheduled, retry}) do
    local z = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if z[2] and (not at or tonumber(z[2]) * 1000 < at) then at = tonumber(z[2]) * 1000 end
  end
  return at
end

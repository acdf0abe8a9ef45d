-- Dead letters, for the scripts that make them, after session.lua.

-- varint_at(msg, at): the number that protobuf has written there, and where it ends; false:
-- there is none.
local function varint_at(msg, at)
  local n, factor = 0, 1
  for i = at, at + 9 do
    local b = string.byte(msg, i)
    if not b then return false end
    n = n + b % 128 * factor
    if b < 128 then return n, i end
    factor = factor * 128
  end
  return false
end

-- without(msg, fields): a TaskMessage without those of its fields, by their number. What
-- is behind its first thousand fields, or cannot be read, stays as it is.
local function without(msg, fields)
  local kept, from, at = {}, 1, 1
  for _ = 1, 1000 do
    local tag, last = varint_at(msg, at)
    local kind, n = tag and tag % 8, false
    if kind == 0 then
      n, last = varint_at(msg, last + 1)
    elseif kind == 1 then
      n, last = true, last + 8
    elseif kind == 2 then
      n, last = varint_at(msg, last + 1)
      if n then last = last + n end
    elseif kind == 5 then
      n, last = true, last + 4
    end
    if not n or last > #msg then break end
    if fields[math.floor(tag / 8)] then
      kept[#kept + 1] = string.sub(msg, from, at - 1)
      from = last + 1
    end
    at = last + 1
  end
  return table.concat(kept) .. string.sub(msg, from)
end

-- with_error(msg, why, seconds): asynq's TaskMessage after a failure. Of a field
-- that occurs twice the last counts, so a change is an append: 7 error_msg, 11
-- last_failed_at. Those of earlier failures go: a task that grew with each of them would
-- in the end be too long to be read.
local function with_error(msg, why, seconds)
  return without(msg, {[7] = true, [11] = true}) .. '\58' .. varint(#why) .. why .. '\88' .. varint(seconds)
end

-- tombstone(id, bytes): the TaskMessage that is kept in place of one that is too long to be
-- read, which has so many bytes. 1 type, 2 payload, 3 id, 4 queue; Limits.DecodePayload knows too_long.
local function tombstone(id, bytes)
  local payload, queue = '{"v":1,"text":"","too_long":' .. int(bytes) .. '}', string.match(task, '{(.*)}')
  return '\10' .. varint(17) .. 'turnstile:message' .. '\18' .. varint(#payload) .. payload ..
    '\26' .. varint(#id) .. id .. '\34' .. varint(#queue) .. queue
end

-- load_short(id, most): as load, but of a msg that is too long its tombstone.
local function load_short(id, most)
  local bytes = too_long(id, most)
  if bytes then return tombstone(id, bytes), lock_of(id) end
  return load(id)
end

-- move_to_archive(id, msg, unique, why, outcome, now): a dead letter that no statistics
-- count yet. That it was seen becomes that it arrived: so Run in asynqmon does not expire it
-- again at once, and /resume knows its place among others.
local function move_to_archive(id, msg, unique, why, outcome, now)
  local seconds, seen = math.floor(now / 1000), call('HGET', task .. id, 'seen')
  call('ZADD', archived, int(seconds), id)
  call('HSET', task .. id, 'msg', with_error(msg, why, seconds), 'state', 'archived', 'result', outcome,
    'arrived', seen or int(now))
  call('HDEL', task .. id, 'pending_since', 'seen', 'redelivered', 'deaths', 'quiet', 'first')
  if unique then call('DEL', unique) end
end

-- count_archived(n): asynq's statistics of n dead letters.
local function count_archived(n)
  add(processed, processed_day, n)
  add(failed, failed_day, n)
end

-- archive(...): the same, and it is counted.
local function archive(id, msg, unique, why, outcome, now)
  move_to_archive(id, msg, unique, why, outcome, now)
  count_archived(1)
end

-- archive_too_long(t, prefix, limits, most, now): t, {id, bytes, unique lock}, has left the
-- line without having been read, because its msg is longer than most. limits are the event
-- stream's.
local function archive_too_long(t, prefix, limits, most, now)
  local own = own_id(prefix, t[1])
  local why = 'invalid message: its task has ' .. int(t[2]) .. ' bytes, at most ' .. int(most) .. ' are allowed; its content was not kept'
  local outcome = '{"type":"turn_ended","status":"failed","messages":[' .. quote(own) .. '],"error":"' .. why .. '"}'
  archive(t[1], tombstone(t[1], t[2]), t[3], why, outcome, now)
  pcall('HDEL', followups, own)
  announce(run, events, limits, outcome)
end

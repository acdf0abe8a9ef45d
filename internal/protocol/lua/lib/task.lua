-- A session's tasks, which are its messages.

-- held_lock(id, unique) returns the task's unique key if the task still holds that lock, or false.
local function held_lock(id, unique)
  return unique and unique ~= '' and call('GET', unique) == id and unique
end

-- lock_of(s, id) returns the unique lock that a task holds, or false. It does not read the msg.
local function lock_of(s, id) return held_lock(id, call('HGET', s.task .. id, 'unique_key')) end

-- load_msg(s, id) returns the task's msg, false if the task is gone, and its unique lock, or false.
local function load_msg(s, id)
  local t = fields(s.task .. id, 'msg', 'unique_key')
  return t.msg, held_lock(id, t.unique_key)
end

-- too_long(s, id) returns how many bytes a task's msg has, if these are more than s.longest, or
-- false. Such a msg is not read: it may have tens of megabytes.
local function too_long(s, id)
  local bytes = call('HSTRLEN', s.task .. id, 'msg')
  return bytes > s.longest and bytes
end

-- load_short(s, id) is load_msg, with a tombstone in place of a msg that is too long.
local function load_short(s, id)
  local bytes = too_long(s, id)
  if bytes then return tombstone(s, id, bytes), lock_of(s, id) end
  return load_msg(s, id)
end

-- load_task(s, id) returns a task with the fields that a claim needs. msg is false if the task is
-- gone. If the msg is too long, msg is '' and too_long is its size in bytes.
local function load_task(s, id)
  local bytes = too_long(s, id)
  if bytes then return {id = id, msg = '', too_long = bytes} end
  local t = fields(s.task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route', 'steer')
  t.id = id
  return t
end

-- message_record(now, id, msg, seen, redelivered, unique_key, steer) returns the record of a message for
-- the worker that takes it.
local function message_record(now, id, msg, seen, redelivered, unique_key, steer)
  local age = now - (tonumber(seen) or now)
  if redelivered or unique_key or steer then
    return message{id = id, msg = msg, age = age, redelivered = tonumber(redelivered) or 0, unique = unique_key and 1 or 0, steer = steer and 1 or 0}
  end
  return message{id = id, msg = msg, age = age}
end

-- message_records(s, ids, now) returns the records of messages that were taken before.
local function message_records(s, ids, now)
  local list = {}
  for i, id in ipairs(ids) do
    local t = load_task(s, id)
    list[i] = message_record(now, id, t.msg, t.seen, t.redelivered, t.unique_key, t.steer)
  end
  return list
end

-- activate(s, id, seen, at) writes that a task is in active. seen is its field, or false: then it
-- becomes at.
local function activate(s, id, seen, at)
  if seen then
    call('HSET', s.task .. id, 'state', 'active')
  else
    call('HSET', s.task .. id, 'state', 'active', 'seen', at)
  end
end

-- own_id(s, id) returns the message id of a task.
local function own_id(s, id)
  if string.sub(id, 1, #s.prefix) == s.prefix then return string.sub(id, #s.prefix + 1) end
  return id
end

-- was_notified(seen, seq) returns whether a sender has notified workers of the task with these
-- fields. If not, a follow-up with its id belongs to an earlier task, which an operator has
-- deleted.
local function was_notified(seen, seq) return seen or seq end

-- goes_first(s, own, first) returns whether a message interrupts or rolls back, and so goes to the head
-- of the queue. first is its field.
local function goes_first(s, own, first) return first and call('HEXISTS', s.followups, own) == 1 end

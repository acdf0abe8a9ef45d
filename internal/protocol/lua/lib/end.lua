-- The end of messages.

-- end_message(s, id, state, outcome, msg): a message has ended: its task keeps the outcome as its
-- result. Returns how many fields are new. Whatever ends a message that is kept calls this.
local function end_message(s, id, state, outcome, msg)
  return call('HSET', s.task .. id, 'state', state, 'result', outcome, 'msg', msg)
end

-- complete(s, id, msg, unique, outcome, retention, seconds): a message that was carried out. Its
-- place among the completed tasks is the caller's to write.
local function complete(s, id, msg, unique, outcome, retention, seconds)
  if retention > 0 then
    end_message(s, id, 'completed', outcome, with_completion(msg, retention, seconds))
  else
    call('DEL', s.task .. id)
  end
  if unique then call('DEL', unique) end
end

-- archive(s, id, msg, unique, why, outcome, now): a message becomes a dead letter, which
-- count_archived has still to count. That it was seen becomes that it arrived: so Run in asynqmon does not expire it
-- again at once, and /resume knows its place among others.
local function archive(s, id, msg, unique, why, outcome, now)
  local seconds, seen = math.floor(now / 1000), call('HGET', s.task .. id, 'seen')
  call('ZADD', s.archived, int(seconds), id)
  end_message(s, id, 'archived', outcome, with_error(msg, why, seconds))
  call('HSET', s.task .. id, 'arrived', seen or int(now))
  call('HDEL', s.task .. id, 'pending_since', 'seen', 'redelivered', 'deaths', 'quiet', 'first')
  if unique then call('DEL', unique) end
end

-- add(counter, day, n): asynq's statistics; a day's counter lives for 90 days.
local function add(counter, day, n)
  if n == 0 then return end
  if pcall('INCRBY', day, n) == n then call('EXPIRE', day, 90 * 24 * 3600) end
  pcall('INCRBY', counter, n)
end

-- count_processed(s, n), count_archived(s, n): asynq's statistics of n messages that have ended.
local function count_processed(s, n) add(s.processed, s.processed_day, n) end
local function count_archived(s, n)
  add(s.processed, s.processed_day, n)
  add(s.failed, s.failed_day, n)
end

-- archive_too_long(s, t, now): t, {id, bytes, unique}, has left the line without having been
-- read, because its msg is too long.
local function archive_too_long(s, t, now)
  local own = own_id(s, t.id)
  local why = 'invalid message: its task has ' .. int(t.bytes) .. ' bytes, at most ' .. int(s.longest) .. ' are allowed; its content was not kept'
  local outcome = '{"type":"turn_ended","status":"failed","messages":[' .. quote(own) .. '],"error":"' .. why .. '"}'
  archive(s, t.id, tombstone(s, t.id, t.bytes), t.unique, why, outcome, now)
  count_archived(s, 1)
  pcall('HDEL', s.followups, own)
  append_event(s, outcome)
end

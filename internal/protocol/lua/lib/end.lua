-- How messages end.

-- end_message(s, id, state, outcome, msg) ends a message whose task is kept: the outcome becomes
-- its result. Returns how many fields are new. Every such end goes through this function. A completed
-- task keeps pending_since, which asynq's dequeue deletes, see leased: to delete it took a twentieth of Redis' time.
local function end_message(s, id, state, outcome, msg)
  return call('HSET', s.task .. id, 'state', state, 'result', outcome, 'msg', msg)
end

-- complete(s, id, msg, unique, outcome, retention, seconds) ends a message that was carried out.
-- Without a retention it deletes the task. The caller adds the task to the completed ones.
local function complete(s, id, msg, unique, outcome, retention, seconds)
  if retention > 0 then
    end_message(s, id, 'completed', outcome, with_completion(msg, retention, seconds))
  else
    call('DEL', s.task .. id)
  end
  if unique then call('DEL', unique) end
end

-- archive(s, id, msg, unique, why, outcome, now) makes a message a dead letter. The caller counts
-- it with count_archived. The field seen becomes arrived: /resume reads the message's place there,
-- and after a Run in asynqmon the message does not expire again at once.
--
-- If the message failed or was stopped without entries, the caller also sets run's unsaid, "fence id" with the last
-- turn's fence: /undo and /retry do not take an earlier turn for this message's.
local function archive(s, id, msg, unique, why, outcome, now)
  local seconds, seen = math.floor(now / 1000), call('HGET', s.task .. id, 'seen')
  call('ZADD', s.archived, int(seconds), id)
  end_message(s, id, 'archived', outcome, with_error(msg, why, seconds))
  call('HSET', s.task .. id, 'arrived', seen or int(now))
  call('HDEL', s.task .. id, 'pending_since', 'seen', 'redelivered', 'deaths', 'died', 'quiet', 'first')
  if unique then call('DEL', unique) end
end

-- add(counter, day, n) adds n to one of asynq's counters, and to that of the day, which lives for
-- 90 days.
local function add(counter, day, n)
  if n == 0 then return end
  if pcall('INCRBY', day, n) == n then call('EXPIRE', day, 90 * 24 * 3600) end
  pcall('INCRBY', counter, n)
end

-- count_processed(s, n) and count_archived(s, n) add n ended messages to asynq's statistics.
local function count_processed(s, n) add(s.processed, s.processed_day, n) end
local function count_archived(s, n)
  add(s.processed, s.processed_day, n)
  add(s.failed, s.failed_day, n)
end

-- archive_too_long(s, t, now) archives t, {id, bytes, unique, route}, which has left the queue. Its
-- msg is too long to be read.
local function archive_too_long(s, t, now)
  local own = own_id(s, t.id)
  local why = 'invalid message: its task has ' .. int(t.bytes) .. ' bytes, at most ' .. int(s.longest) .. ' are allowed; its content was not kept'
  local outcome = '{"type":"turn_ended","status":"failed","messages":[' .. quote(own) .. '],"error":"' .. why .. '","code":"invalid_message"}'
  archive(s, t.id, tombstone(s, t.id, t.bytes), t.unique, why, outcome, now)
  call('HSET', s.run, 'unsaid', (call('HGET', s.run, 'fence') or '0') .. ' ' .. t.id)
  keep_promises(s, {t}, outcome, now)
  count_archived(s, 1)
  pcall('HDEL', s.followups, own)
  append_event(s, outcome)
end

-- Dead letters, for the scripts that make them, after session.lua.

-- with_error(msg, why, seconds): asynq's TaskMessage after a failure. Of a field
-- that occurs twice the last counts, so a change is an append: 7 error_msg, 11
-- last_failed_at.
local function with_error(msg, why, seconds)
  return msg .. '\58' .. varint(#why) .. why .. '\88' .. varint(seconds)
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

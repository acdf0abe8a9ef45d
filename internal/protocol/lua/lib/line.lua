-- The session's queue, and how a turn takes messages from it.

-- NEAR is how many ids at either end of a long queue are searched.
local NEAR = 500

-- next_at(s, now) returns when a message can be taken: now or earlier, a later ms, or false for
-- never. For messages that are collected the time may be too early: the claim finds the end of
-- their quiet window.
local function next_at(s, now)
  local id = call('LINDEX', s.pending, '-1')
  if id then
    local quiet = pcall('HGET', s.task .. id, 'quiet')
    return type(quiet) == 'string' and tonumber(string.match(quiet, '^%d+')) or now
  end
  if call('HGET', s.run, 'stopping') == '1' then return now end -- for the claim to archive
  if call('EXISTS', s.scheduled, s.retry) == 0 then return false end
  local at = false
  for _, zset in ipairs({s.scheduled, s.retry}) do
    local z = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    if z[2] and (not at or tonumber(z[2]) * 1000 < at) then at = tonumber(z[2]) * 1000 end
  end
  return at
end

-- due_tasks(s, now) returns due delayed tasks, by time and then by order of enqueueing: {id, score,
-- seq, zset, state}. state is false if the task is gone.
local function due_tasks(s, now)
  local due = {}
  for _, zset in ipairs({s.scheduled, s.retry}) do
    local z = call('ZRANGEBYSCORE', zset, '-inf', int(math.floor(now / 1000)), 'WITHSCORES', 'LIMIT', 0, 1000)
    for i = 1, #z, 2 do
      local t = fields(s.task .. z[i], 'seq', 'state')
      due[#due + 1] = {id = z[i], score = tonumber(z[i + 1]), seq = tonumber(t.seq) or 0, zset = zset, state = t.state}
    end
  end
  table.sort(due, function(a, b)
    if a.score ~= b.score then return a.score < b.score end
    if a.seq ~= b.seq then return a.seq < b.seq end
    return a.id < b.id
  end)
  return due
end

-- forward(s, due, now) moves due tasks to the end of the queue.
local function forward(s, due, now)
  for _, t in ipairs(due) do
    call('ZREM', t.zset, t.id)
    if t.state then
      call('LPUSH', s.pending, t.id)
      call('HSET', s.task .. t.id, 'state', 'pending', 'pending_since', int(now) .. '000000')
    end
  end
end

-- head(s, due) returns the task at the head of the queue once due is forwarded, and how many ids
-- without a task precede it. The task is false if the queue is empty, or if there are so many ids
-- without a task that the next call continues.
local function head(s, due)
  local gone, most, behind = 0, 500, {}
  while gone < most do
    if gone == 1 then behind = call('LRANGE', s.pending, -most, -2) end -- newest first
    local id
    if gone == 0 then id = call('LINDEX', s.pending, '-1') else id = behind[#behind + 1 - gone] end
    if not id then
      for _, t in ipairs(due) do
        if t.state then return load_task(s, t.id), gone end
      end
      return false, gone
    end
    local t = load_task(s, id)
    if t.msg then return t, gone end
    gone = gone + 1
  end
  return false, gone
end

-- gather(s, first, gone, now, limits) returns the messages of one turn, and until when (ms) they
-- wait for more, or false. The turn takes first, the head of the queue. If first is to be
-- collected, it also takes the collected messages directly after it, up to limits: "messages
-- bytes". A task's quiet is "ms cap": the end of its quiet window, and the number of messages that
-- ends the wait.
local function gather(s, first, gone, now, limits)
  if not first.quiet then return {first}, false end
  local till, cap = string.match(first.quiet, '^(%d+) (%d+)$')
  local most, room = string.match(limits, '^(%d+) (%d+)$')
  till, cap = tonumber(till) or 0, math.min(tonumber(cap) or 1, tonumber(most))
  local group, behind = {first}, call('LRANGE', s.pending, -cap - gone, -2 - gone) -- newest first
  room = tonumber(room) - #first.msg
  for i = #behind, 1, -1 do
    local t = load_task(s, behind[i])
    if not t.msg or not t.quiet then break end
    room = room - #t.msg
    if room < 0 then break end
    group[#group + 1] = t
    till = math.max(till, tonumber(string.match(t.quiet, '^%d+')) or 0)
  end
  if #group >= cap or room < 0 or till <= now then till = false end
  return group, till
end

-- claimable_at(s, run, now) returns when a turn can be taken, as next_at, or a parked one.
local function claimable_at(s, run, now)
  local till = parked_until(run)
  if till then return math.max(till, now) end
  return next_at(s, now)
end

-- take(s, group, now, there) moves the group from the queue to active, unless it is there. Returns its ids, as JSON,
-- and the record of each for the worker.
local function take(s, group, now, there)
  local messages, ids = {}, ''
  for i, t in ipairs(group) do
    if not there then call('RPOPLPUSH', s.pending, s.active) end
    activate(s, t.id, t.seen, int(now))
    messages[i] = message_record(now, t.id, t.msg, t.seen, t.redelivered, t.unique_key, t.steer)
    ids = ids .. (i > 1 and ',' or '') .. quote(t.id)
  end
  return '[' .. ids .. ']', messages
end

-- take_ordinary(s) moves the head of the queue to active if it is an ordinary message: it
-- waits for nothing, has no route and can be read. Returns its id, msg, seen, redelivered and
-- unique_key. If not, it moves the head back, and returns false and the head: an id, or false if
-- the queue is empty.
local function take_ordinary(s)
  local id = call('RPOPLPUSH', s.pending, s.active)
  if type(id) ~= 'string' then return false, id end
  local bytes = call('HSTRLEN', s.task .. id, 'msg')
  if type(bytes) == 'number' and bytes <= s.longest then
    local t = fields(s.task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key', 'route')
    if t.msg and not t.quiet and not t.route and string.find(id, '^[%w%-._:@+=~]*$') then
      return id, t.msg, t.seen, t.redelivered, t.unique_key
    end
  end
  call('LMOVE', s.active, s.pending, 'LEFT', 'RIGHT')
  return false, id
end

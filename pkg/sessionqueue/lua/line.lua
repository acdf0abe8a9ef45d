-- The session's line, for the scripts that take its head, after session.lua.

-- due_tasks(now): delayed tasks whose time has come, by time and then by order
-- of enqueueing. Each is {id, score, seq, zset, state; state is false if the task
-- is gone}.
local function due_tasks(now)
  local due = {}
  for _, zset in ipairs({scheduled, retry}) do
    local z = call('ZRANGEBYSCORE', zset, '-inf', int(math.floor(now / 1000)), 'WITHSCORES', 'LIMIT', 0, 1000)
    for i = 1, #z, 2 do
      local t = call('HMGET', task .. z[i], 'seq', 'state')
      due[#due + 1] = {z[i], tonumber(z[i + 1]), tonumber(t[1]) or 0, zset, t[2]}
    end
  end
  table.sort(due, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    if a[3] ~= b[3] then return a[3] < b[3] end
    return a[1] < b[1]
  end)
  return due
end

-- forward(due, now): they join the end of the line.
local function forward(due, now)
  for _, t in ipairs(due) do
    call('ZREM', t[4], t[1])
    if t[5] then
      call('LPUSH', pending, t[1])
      call('HSET', task .. t[1], 'state', 'pending', 'pending_since', int(now) .. '000000')
    end
  end
end

-- first_due(due): the first of them that still exists.
local function first_due(due)
  for _, t in ipairs(due) do
    if t[5] then return t[1] end
  end
  return false
end

-- head(due): the head of the line once due is forwarded, with its task as
-- {id, msg, seen, redelivered}; and how many ids without a task stand before it.
-- False: the line is empty.
local function head(due)
  local gone = 0
  while true do
    local id = call('LINDEX', pending, -1 - gone) or first_due(due)
    if not id then return false, gone end
    local t = call('HMGET', task .. id, 'msg', 'seen', 'redelivered')
    if t[1] then return {id, t[1], t[2], t[3]}, gone end
    if gone >= call('LLEN', pending) then return false, gone end
    gone = gone + 1
  end
end

-- skip(gone): ids without a task leave the line.
local function skip(gone)
  for _ = 1, gone do call('RPOP', pending) end
end

-- take(h, gone, now, ends): the head of the line becomes active. Answers what
-- the worker is told of it: {id, msg, age in ms, redeliveries}.
local function take(h, gone, now, ends)
  skip(gone)
  call('RPOPLPUSH', pending, active)
  if h[3] then
    call('HSET', task .. h[1], 'state', 'active')
  else
    h[3] = now
    call('HSET', task .. h[1], 'state', 'active', 'seen', int(now))
  end
  call('ZADD', lease, ends, h[1])
  return {h[1], h[2], now - tonumber(h[3]), tonumber(h[4]) or 0}
end

-- taken(id, now): the same for a message that was taken before, of which the
-- worker has not heard.
local function taken(id, now)
  local t = call('HMGET', task .. id, 'msg', 'seen', 'redelivered')
  return {id, t[1], now - (tonumber(t[2]) or now), tonumber(t[3]) or 0}
end

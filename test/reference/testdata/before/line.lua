-- The session's line, for the scripts that take its head, after session.lua.

-- How many bytes a task's msg may have, which the script sets. One that has more is taken
-- by nobody: a claim archives it.
local longest

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

-- How many ids at either end of the line are looked at, where all would be too many.
local NEAR = 500

-- look_at(id): a task as {id, msg, seen, redelivered, quiet, unique key, bytes of a msg
-- that is too long}; msg is false if the task is gone, and '' if it is too long.
local function look_at(id)
  local bytes = too_long(id, longest)
  if bytes then return {id, '', false, false, false, false, bytes} end
  local t = call('HMGET', task .. id, 'msg', 'seen', 'redelivered', 'quiet', 'unique_key')
  return {id, t[1], t[2], t[3], t[4], t[5]}
end

-- tell(h, now): what the worker is told of a task: {id, msg, age in ms,
-- redeliveries, 1 if it has a unique key}.
local function tell(h, now)
  return {h[1], h[2], now - (tonumber(h[3]) or now), tonumber(h[4]) or 0, h[6] and 1 or 0}
end

-- head(due): the head of the line once due is forwarded; and how many ids without
-- a task stand before it. False: the line is empty, or so many ids are without a task
-- that the rest is left to the next call.
local function head(due)
  local gone, most, behind = 0, 500, {}
  while gone < most do
    if gone == 1 then behind = call('LRANGE', pending, -most, -2) end -- newest first
    local id
    if gone == 0 then id = call('LINDEX', pending, '-1') else id = behind[#behind + 1 - gone] end
    if not id then
      for _, t in ipairs(due) do
        if t[5] then return look_at(t[1]), gone end
      end
      return false, gone
    end
    local h = look_at(id)
    if h[2] then return h, gone end
    gone = gone + 1
  end
  return false, gone
end

-- gather(h, gone, now, limits): the messages that one turn takes: the head of the
-- line, and behind one that is to be collected those next to it that are as well, as
-- far as limits go: "messages bytes". And until when (ms) they wait for more, or false.
-- A task's quiet is "ms cap": the end of its own quiet window, and with how many the
-- wait is over.
local function gather(h, gone, now, limits)
  if not h[5] then return {h}, false end
  local till, cap = string.match(h[5], '^(%d+) (%d+)$')
  local most, room = string.match(limits, '^(%d+) (%d+)$')
  till, cap = tonumber(till) or 0, math.min(tonumber(cap) or 1, tonumber(most))
  local group, behind = {h}, call('LRANGE', pending, -cap - gone, -2 - gone) -- newest first
  room = tonumber(room) - #h[2]
  for i = #behind, 1, -1 do
    local t = look_at(behind[i])
    if not t[2] or not t[5] then break end
    room = room - #t[2]
    if room < 0 then break end
    group[#group + 1] = t
    till = math.max(till, tonumber(string.match(t[5], '^%d+')) or 0)
  end
  if #group >= cap or room < 0 or till <= now then till = false end
  return group, till
end

-- take(group, now): the group leaves the line and becomes active.
-- Answers its ids, as JSON, and what the worker is told of each.
local function take(group, now)
  local told, ids = {}, ''
  for i, h in ipairs(group) do
    call('RPOPLPUSH', pending, active)
    if h[3] then
      call('HSET', task .. h[1], 'state', 'active')
    else
      h[3] = now
      call('HSET', task .. h[1], 'state', 'active', 'seen', int(now))
    end
    told[i] = tell(h, now)
    ids = ids .. (i > 1 and ',' or '') .. quote(h[1])
  end
  return '[' .. ids .. ']', told
end

-- taken(ids, now): what the worker is told of messages that were taken before, of
-- which it has not heard.
local function taken(ids, now)
  local told = {}
  for i, id in ipairs(ids) do told[i] = tell(look_at(id), now) end
  return told
end

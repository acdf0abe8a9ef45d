-- Steered messages that the agent has not taken. They go back to their places in the queue.

-- places(s, ids) returns the places of these messages, by the order of arrival. Its head is the id
-- at the head of the queue once they are back, if there is one. A message with a place in the
-- middle of a long queue goes further ahead, after the NEAR ids at the head.
local function places(s, ids)
  local oldest = call('LRANGE', s.pending, -NEAR, -1) -- newest first
  local others = math.min(call('LLEN', s.pending) - #oldest, NEAR)
  local newest = others > 0 and call('LRANGE', s.pending, 0, others - 1) or {}
  local tasks, ahead = {}, {} -- by id

  -- later(id, seq) returns whether a message arrived later and does not go to the head of the
  -- queue.
  local function later(id, seq)
    local t = tasks[id] or fields(s.task .. id, 'seq', 'first')
    tasks[id] = t
    if (tonumber(t.seq) or 0) <= seq then return false end
    if ahead[id] == nil then ahead[id] = goes_first(s, own_id(s, id), t.first) or false end
    return not ahead[id]
  end

  -- Each has its id, and before: how many of the oldest ids precede it, or behind: how many of the
  -- newest follow it.
  local back = {oldest = oldest, newest = newest}
  local before, last_seq = 0, 0 -- ids are usually in the order of arrival
  for _, id in ipairs(ids) do
    local t = fields(s.task .. id, 'seq', 'state')
    local seq, behind = tonumber(t.seq) or 0, false
    if seq < last_seq then before = 0 end
    last_seq = seq
    while before < #oldest and not later(oldest[#oldest - before], seq) do before = before + 1 end
    if before == #oldest and #newest > 0 then
      behind = 0
      while behind < #newest and later(newest[behind + 1], seq) do behind = behind + 1 end
      if behind == #newest then behind = false end
    end
    back[#back + 1] = {id = id, before = not behind and before, behind = behind}
    -- A message that asynq or an operator has taken out of the turn does not come back.
    if before == 0 and not back.head and t.state == 'active' then back.head = id end
  end
  back.head = back.head or oldest[#oldest]
  return back
end

-- return_untaken(s, back) moves the messages from the turn to their places. If several have the
-- same place, the first one is nearest to the head.
local function return_untaken(s, back)
  local ahead, behind, nahead, nbehind = {}, {}, 0, 0
  for i = #back, 1, -1 do -- newest first, as they stand in active
    local id, b = back[i].id, back[i]
    if call('LREM', s.active, '1', id) == 1 and call('EXISTS', s.task .. id) == 1 then
      call('HSET', s.task .. id, 'state', 'pending')
      local there = b.before and ahead or behind
      local n = b.before or b.behind
      there[n] = there[n] or {}
      table.insert(there[n], id)
      if b.before then nahead = math.max(nahead, n) else nbehind = math.max(nbehind, n) end
    end
    pcall('ZREM', s.lease, id)
    pcall('HDEL', s.followups, own_id(s, id))
  end
  local line = {} -- from the middle to the head
  for n = nahead, 0, -1 do
    for _, id in ipairs(ahead[n] or {}) do line[#line + 1] = id end
    if n > 0 then line[#line + 1] = back.oldest[#back.oldest - n + 1] end
  end
  if next(ahead) then
    call('LTRIM', s.pending, 0, -1 - nahead)
    call('RPUSH', s.pending, unpack(line))
  end
  line = {} -- from the middle to the end
  for n = nbehind, 0, -1 do
    local there = behind[n] or {} -- newest first
    for i = #there, 1, -1 do line[#line + 1] = there[i] end
    if n > 0 then line[#line + 1] = back.newest[n] end
  end
  if next(behind) then
    call('LTRIM', s.pending, nbehind, -1)
    call('LPUSH', s.pending, unpack(line))
  end
end

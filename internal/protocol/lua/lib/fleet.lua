-- Who is next among sessions: queues for each agent in the order of tags, and limits. All of it lies in the slot of the
-- ready index, where sessions arrive.
--
-- A session that was sorted has a place, "agent limit ...", and waits either in the queue of that agent or with those
-- that are held back by one limit. The place is the truth: an entry without it, or in another agent's queue, is left
-- over. A session that was let on and counts for a limit has a hold, "token limit ...", until it is released or
-- its lease ends.

-- held_recheck is how often, in ms, dispatch looks at the sessions behind a limit if nothing was released.
local held_recheck = 5000

-- names_after(text) returns the names after the first word of a place or hold.
local function names_after(text) return string.match(text, '^%S+ ?(.*)$') end

-- cap_of_limit(s, limit) returns a limit's cap, or false. KIND:* is that of every limit of a kind without its own.
local function cap_of_limit(s, limit)
  local cap = call('HGET', s.limits, limit) or call('HGET', s.limits, string.match(limit, '^[^:]*:') .. '*')
  return cap and tonumber(cap)
end

-- room_for(s, limit) returns how many more sessions may count for a limit now, or false if it has no cap. The
-- limit session:KEY is 1: what wakes a session that still has a hold waits for its end.
local function room_for(s, limit)
  local session = string.match(limit, '^session:(.*)$')
  if session then return 1 - call('HEXISTS', s.holds, session) end
  local cap = cap_of_limit(s, limit)
  return cap and cap - tonumber(call('HGET', s.running, limit) or 0)
end

-- ring_bell(s, agent) wakes one worker that waits for sessions of an agent.
local function ring_bell(s, agent) call('ZADD', s.bell .. agent, 0, 'work') end

-- end_hold(s, session) ends a session's hold.
local function end_hold(s, session)
  local hold = call('HGET', s.holds, session)
  call('ZREM', s.ends, session)
  call('HDEL', s.holds, session)
  if not hold then return end
  call('ZADD', s.waits, 'XX', 0, 'session:' .. session)
  for limit in string.gmatch(names_after(hold), '%S+') do
    if call('HINCRBY', s.running, limit, -1) <= 0 then call('HDEL', s.running, limit) end
    call('ZADD', s.waits, 'XX', 0, limit)
  end
end

-- let_held_on(s, now) lets sessions on that a limit has held back, at their old tags, as many as it has room for. It looks
-- at up to 100 limits, and lets on up to 100 sessions of each.
local function let_held_on(s, now)
  for _, limit in ipairs(call('ZRANGEBYSCORE', s.waits, '-inf', int(now), 'LIMIT', 0, 100)) do
    local held, space = s.held .. limit, math.min(room_for(s, limit) or 100, 100)
    local first, left_over = space > 0 and call('ZPOPMIN', held, space) or {}, false
    for i = 1, #first, 2 do
      local place = call('HGET', s.place, first[i])
      if not place then
        left_over = true
      else
        local agent = string.match(place, '^%S+')
        call('ZADD', s.queue .. agent, first[i + 1], first[i])
        ring_bell(s, agent)
      end
    end
    if call('EXISTS', held) == 1 then
      call('ZADD', s.waits, (left_over or #first == 200) and 0 or int(now + held_recheck), limit)
    else
      call('ZREM', s.waits, limit)
    end
  end
end

-- Code generated from ../lua/hold.lua by go generate; DO NOT EDIT.
--
-- hold: renews what sessions hold of limits, or releases it. A hold with another token stays: another owner has it.
--
-- KEYS holds ends running limits place waits
-- ARGS
--   s.queue          prefix of the agents' queues
--   s.held           prefix of those that are held back
--   s.bell           prefix of the agents' bells
--   ttl number       of the holds from now, ms. 0: release them
--   sessions list    at most 1,000
--   tokens list      of their holds
-- RETURNS
--   result: kept:int    how many of them the token has

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_holds, s_ends, s_running, s_limits, s_place, s_waits, s_queue, s_held, s_bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[3]

-- names_after(text) returns the names after the first word of a place or hold.
local function names_after(text) return string.match(text, '^%S+ ?(.*)$') end

-- end_hold(s, session) ends a session's hold.
local function end_hold(s_ends, s_holds, s_running, s_waits, session)
  local hold = call('HGET', s_holds, session)
  call('ZREM', s_ends, session)
  call('HDEL', s_holds, session)
  if not hold then return end
  call('ZADD', s_waits, 'XX', 0, 'session:' .. session)
  for limit in string.gmatch(names_after(hold), '%S+') do
    if call('HINCRBY', s_running, limit, -1) <= 0 then call('HDEL', s_running, limit) end
    call('ZADD', s_waits, 'XX', 0, limit)
  end
end

-- held_recheck is how often, in ms, dispatch looks at the sessions behind a limit if nothing was released.
local held_recheck = 5000

-- ring_bell(s, agent) wakes one worker that waits for sessions of an agent.
local function ring_bell(s_bell, agent) call('ZADD', s_bell .. agent, 0, 'work') end

-- cap_of_limit(s, limit) returns a limit's cap, or false. KIND:* is that of every limit of a kind without its own.
local function cap_of_limit(s_limits, limit)
  local cap = call('HGET', s_limits, limit) or call('HGET', s_limits, string.match(limit, '^[^:]*:') .. '*')
  return cap and tonumber(cap)
end

-- room_for(s, limit) returns how many more sessions may count for a limit now, or false if it has no cap. The
-- limit session:KEY is 1: what wakes a session that still has a hold waits for its end.
local function room_for(s_holds, s_limits, s_running, limit)
  local session = string.match(limit, '^session:(.*)$')
  if session then return 1 - call('HEXISTS', s_holds, session) end
  local cap = cap_of_limit(s_limits, limit)
  return cap and cap - tonumber(call('HGET', s_running, limit) or 0)
end

-- let_held_on(s, now) lets sessions on that a limit has held back, at their old tags, as many as it has room for. It looks
-- at up to 100 limits, and lets on up to 100 sessions of each.
local function let_held_on(s_bell, s_held, s_holds, s_limits, s_place, s_queue, s_running, s_waits, now)
  for _, limit in ipairs(call('ZRANGEBYSCORE', s_waits, '-inf', string.format('%d', now), 'LIMIT', 0, 100)) do
    local held, space = s_held .. limit, math.min(room_for(s_holds, s_limits, s_running, limit) or 100, 100)
    local first, left_over = space > 0 and call('ZPOPMIN', held, space) or {}, false
    for i = 1, #first, 2 do
      local place = call('HGET', s_place, first[i])
      if not place then
        left_over = true
      else
        local agent = string.match(place, '^%S+')
        call('ZADD', s_queue .. agent, first[i + 1], first[i])
        ring_bell(s_bell, agent)
      end
    end
    if call('EXISTS', held) == 1 then
      call('ZADD', s_waits, (left_over or #first == 200) and 0 or string.format('%d', (now + held_recheck)), limit)
    else
      call('ZREM', s_waits, limit)
    end
  end
end

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local ttl = tonumber(ARGV[4])
local at = 5
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local sessions = list()
local tokens = list()

local now, kept = now_ms(), 0
for i, session in ipairs(sessions) do
  local hold = call('HGET', s_holds, session)
  if hold and string.match(hold, '^%S+') == tokens[i] then
    kept = kept + 1
    call('ZREM', s_ends, session) -- first: a full Redis lets a script that has written go on
    if ttl > 0 then call('ZADD', s_ends, string.format('%d', (now + ttl)), session) else end_hold(s_ends, s_holds, s_running, s_waits, session) end
  end
end
if ttl == 0 then let_held_on(s_bell, s_held, s_holds, s_limits, s_place, s_queue, s_running, s_waits, now) end
return {kept}

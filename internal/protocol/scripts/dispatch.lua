-- Code generated from ../lua/dispatch.lua by go generate; DO NOT EDIT.
--
-- dispatch: decides which sessions a worker claims. It sorts sessions that have arrived in the ready index, lets on those
-- that limits have held back, and takes those with the lowest tags among the queues of some agents.
--
-- Tags are those of self-clocked fair queueing (Golestani, INFOCOM 1994): a session's is the tag of the last one that
-- was taken, or that of its tenant's last session if that is higher, plus 10^6 / weight of the tenant. Each agent has a
-- clock of its own, which whoever takes a session moves for all of its agents.
--
-- KEYS ready sorted place holds ends running limits waits fair
-- ARGS
--   s.queue          prefix of the agents' queues
--   s.held           prefix of those that are held back
--   s.bell           prefix of the agents' bells
--   ttl number       of the holds, ms
--   token            of the holds
--   most number      how many sessions to take
--   named            '', or the only session to take
--   agents list      whose sessions to take
--   arrived list     sessions, at most 128
--   since list       since when each of them waits, ms; with a minus if the caller has taken it off the index, 0: now
--   tenants list     the tenant of each
--   shares list      10^6 / weight of that tenant
--   to list          the place of each
-- RETURNS
--   result: found:list held:list more:flag    found: sessions to claim; held: those of them that have a hold; more: call again

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_ready, s_sorted, s_place, s_holds, s_ends, s_running, s_limits, s_waits, s_fair, s_queue, s_held, s_bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], ARGV[1], ARGV[2], ARGV[3]

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

-- held_recheck is how often, in ms, dispatch looks at the sessions behind a limit if nothing was given back.
local held_recheck = 5000

-- A whole number as text. Lua would write large ones as 1.7e+12.
local function int(number)
  return string.format('%d', number)
end

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

local ttl, token, most, named = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7]
local at = 8
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local agents = list()
local arrived = list()
local since = list()
local tenants = list()
local shares = list()
local to = list()

local now, capped, bells = now_ms(), call('EXISTS', s_limits) == 1, {}

for _, session in ipairs(call('ZRANGEBYSCORE', s_ends, '-inf', int(now), 'LIMIT', 0, 100)) do end_hold(s_ends, s_holds, s_running, s_waits, session) end

-- tag_of(agent, tenant, share) returns the tag of a tenant's next session.
local function tag_of(agent, tenant, share)
  local clocks = call('ZMSCORE', s_fair, agent, agent .. ' ' .. tenant)
  local tag = int(math.max(tonumber(clocks[1] or 0), tonumber(clocks[2] or 0)) + tonumber(share))
  call('ZADD', s_fair, tag, agent .. ' ' .. tenant)
  return tag
end

for i, session in ipairs(arrived) do
  local at = since[i] == '0' and int(now) or string.gsub(since[i], '^-', '')
  local there = call('ZREM', s_ready, session) == 1 -- first: a full Redis lets a script that has written go on
  if (there or at ~= since[i]) and call('HEXISTS', s_place, session) == 0 then
    local agent = string.match(to[i], '^%S+')
    call('HSET', s_place, session, to[i])
    call('ZADD', s_sorted, at, session)
    call('ZADD', s_queue .. agent, tag_of(agent, tenants[i], shares[i]), session)
    bells[agent] = true
  end
end
let_held_on(s_bell, s_held, s_holds, s_limits, s_place, s_queue, s_running, s_waits, now)

-- The first of each queue: {tag, session}, or false.
local tops = {}
local function look(agent)
  local top
  if named == '' then
    top = call('ZRANGE', s_queue .. agent, 0, 0, 'WITHSCORES')
  else
    top = {named, call('ZSCORE', s_queue .. agent, named)}
  end
  tops[agent] = top[2] and {tonumber(top[2]), top[1]}
end
if most > 0 then for _, agent in ipairs(agents) do look(agent) end end

local found, held, looked, clock = {}, {}, 0, false
while #found < most and looked < 128 do
  local agent
  for _, a in ipairs(agents) do
    if tops[a] and (not agent or tops[a][1] < tops[agent][1]) then agent = a end
  end
  if not agent then break end
  local tag, session = tops[agent][1], tops[agent][2]
  looked = looked + 1
  call('ZREM', s_queue .. agent, session)
  look(agent)
  local place = call('HGET', s_place, session)
  if place and string.match(place, '^%S+') == agent then
    local full, counts = room_for(s_holds, s_limits, s_running, 'session:' .. session) == 0 and 'session:' .. session, {}
    for limit in string.gmatch(capped and names_after(place) or '', '%S+') do
      local space = room_for(s_holds, s_limits, s_running, limit)
      if space and space <= 0 then full = full or limit elseif space then counts[#counts + 1] = limit end
    end
    if full then
      call('ZADD', s_held .. full, int(tag), session)
      call('ZADD', s_waits, 'NX', int(now + held_recheck), full)
      for _, limit in ipairs(counts) do call('ZADD', s_waits, 'XX', 0, limit) end -- it does not use their room
    else
      call('HDEL', s_place, session)
      call('ZREM', s_sorted, session)
      clock = named == '' and math.max(clock or 0, tag)
      found[#found + 1] = session
      if #counts > 0 then
        held[#held + 1] = session
        for _, limit in ipairs(counts) do call('HINCRBY', s_running, limit, 1) end
        call('HSET', s_holds, session, token .. ' ' .. table.concat(counts, ' '))
        call('ZADD', s_ends, int(now + ttl), session)
      end
    end
  end
end

if call('EXISTS', s_sorted) == 0 then
  call('DEL', s_fair) -- nobody waits: all tenants begin anew
elseif clock then
  local clocks = {}
  for _, agent in ipairs(agents) do clocks[#clocks + 1], clocks[#clocks + 2] = int(clock), agent end
  call('ZADD', s_fair, 'GT', unpack(clocks))
  local lowest = call('ZRANGE', s_fair, 0, 99, 'WITHSCORES')
  for i = 1, #lowest, 2 do -- a tenant at or below its agent's clock begins at that anyway
    local agent = string.match(lowest[i], '^(%S+) ')
    if agent and tonumber(lowest[i + 1]) <= tonumber(call('ZSCORE', s_fair, agent) or 0) then call('ZREM', s_fair, lowest[i]) end
  end
end
for _, agent in ipairs(agents) do bells[agent] = true end
for agent in pairs(bells) do
  if call('EXISTS', s_queue .. agent) == 1 then ring_bell(s_bell, agent) end
end
return {found, held, #found < most and looked == 128}

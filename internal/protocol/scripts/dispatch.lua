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
--   arrived list     sessions that have arrived, at most 128
--   since list       since when each of them waits, ms; with a minus if the caller has taken it off the index, 0: now
--   tenants list     the tenant of each
--   shares list      10^6 / weight of that tenant
--   to list          the place of each
-- RETURNS
--   result: found:list held:list more:flag rest:list
--     found: sessions to claim; held: those of them that have a hold; more: call again; rest: session, since ... of
--     further ones that have arrived, to be sorted before any is taken

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

-- held_recheck is how often, in ms, dispatch looks at the sessions behind a limit if nothing was released.
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

local now = now_ms()
for _, session in ipairs(call('ZRANGEBYSCORE', s_ends, '-inf', int(now), 'LIMIT', 0, 100)) do end_hold(s_ends, s_holds, s_running, s_waits, session) end

local own, bells, capped = {}, {}, call('EXISTS', s_limits) == 1
for _, agent in ipairs(agents) do own[agent], bells[agent] = true, true end

-- 1. What has arrived, and is not sorted yet.
local new, seen, rest = {}, {}, {}
local direct = named == '' and #arrived <= most and not capped and call('EXISTS', s_sorted, s_holds) == 0
if #arrived > 0 then
  local there, kept = call('ZMSCORE', s_ready, unpack(arrived)), call('HMGET', s_place, unpack(arrived))
  call('ZREM', s_ready, unpack(arrived)) -- first: a full Redis lets a script that has written go on
  for i, session in ipairs(arrived) do
    local taken = not string.match(since[i], '^[1-9]')
    if (there[i] or taken) and not kept[i] and not seen[session] then
      local agent = string.match(to[i], '^%S+')
      seen[session], direct = true, direct and own[agent]
      new[#new + 1] = {session = session, agent = agent, tenant = agent .. ' ' .. tenants[i], at = i}
    end
  end
end

if named == '' then rest = call('ZRANGE', s_ready, 0, 127, 'WITHSCORES') end
if #rest > 0 then direct, most = false, 0 end

local found, held = {}, {}
if direct then -- nobody waits, and there is room for all
  for i, one in ipairs(new) do found[i] = one.session end
  return {found, held, false, rest}
end

if #new > 0 then
  local names, tags = {}, {}
  for _, one in ipairs(new) do
    for _, name in ipairs{one.agent, one.tenant} do
      if not tags[name] then names[#names + 1], tags[name] = name, 0 end
    end
  end
  for i, tag in ipairs(call('ZMSCORE', s_fair, unpack(names))) do tags[names[i]] = tonumber(tag or 0) end
  local kept, waits, queues, last = {}, {}, {}, {}
  for _, one in ipairs(new) do
    local tag = math.max(tags[one.agent], tags[one.tenant]) + tonumber(shares[one.at])
    local at, queue = string.gsub(since[one.at], '^-', ''), queues[one.agent] or {}
    tags[one.tenant], queues[one.agent], bells[one.agent] = tag, queue, true
    queue[#queue + 1], queue[#queue + 2] = int(tag), one.session
    kept[#kept + 1], kept[#kept + 2] = one.session, to[one.at]
    waits[#waits + 1], waits[#waits + 2] = at == '0' and int(now) or at, one.session
    last[#last + 1], last[#last + 2] = int(tag), one.tenant
  end
  call('HSET', s_place, unpack(kept))
  call('ZADD', s_sorted, unpack(waits))
  call('ZADD', s_fair, unpack(last))
  for agent, queue in pairs(queues) do call('ZADD', s_queue .. agent, unpack(queue)) end
end
let_held_on(s_bell, s_held, s_holds, s_limits, s_place, s_queue, s_running, s_waits, now)

-- lowest(n) returns the n sessions with the lowest tags of all queues.
local function lowest(n)
  local all = {}
  for _, agent in ipairs(agents) do
    local list
    if named == '' then
      list = call('ZRANGE', s_queue .. agent, 0, n - 1, 'WITHSCORES')
    else
      list = {named, call('ZSCORE', s_queue .. agent, named)}
    end
    for i = 1, #list, 2 do
      if list[i + 1] then all[#all + 1] = {session = list[i], agent = agent, tag = tonumber(list[i + 1]), nth = #all} end
    end
  end
  table.sort(all, function(a, b) return a.tag < b.tag or a.tag == b.tag and a.nth < b.nth end)
  for i = #all, n + 1, -1 do all[i] = nil end
  return all
end

-- 2. The next ones. A session over a limit waits behind that instead of in its queue.
local looked, clock = 0, false
while #found < most and looked < 128 do
  local heads, sessions = lowest(math.min(most - #found, 128)), {}
  if #heads == 0 then break end
  for i, one in ipairs(heads) do sessions[i] = one.session end
  local kept, holds = call('HMGET', s_place, unpack(sessions)), call('HMGET', s_holds, unpack(sessions))
  local gone, off = {}, {}
  for i, one in ipairs(heads) do
    local session, place = one.session, kept[i]
    gone[one.agent] = gone[one.agent] or {}
    table.insert(gone[one.agent], session)
    if place and string.match(place, '^%S+') == one.agent then
      local full, counts = holds[i] and 'session:' .. session, {}
      for limit in string.gmatch(capped and names_after(place) or '', '%S+') do
        local space = room_for(s_holds, s_limits, s_running, limit)
        if space and space <= 0 then full = full or limit elseif space then counts[#counts + 1] = limit end
      end
      if full then
        call('ZADD', s_held .. full, int(one.tag), session)
        call('ZADD', s_waits, 'NX', int(now + held_recheck), full)
        for _, limit in ipairs(counts) do call('ZADD', s_waits, 'XX', 0, limit) end -- it does not use their room
      else
        off[#off + 1], found[#found + 1] = session, session
        clock = named == '' and one.tag
        if #counts > 0 then
          held[#held + 1] = session
          for _, limit in ipairs(counts) do call('HINCRBY', s_running, limit, 1) end
          call('HSET', s_holds, session, token .. ' ' .. table.concat(counts, ' '))
          call('ZADD', s_ends, int(now + ttl), session)
        end
      end
    end
  end
  looked = looked + #heads
  for agent, list in pairs(gone) do call('ZREM', s_queue .. agent, unpack(list)) end
  if #off > 0 then
    call('HDEL', s_place, unpack(off))
    call('ZREM', s_sorted, unpack(off))
  end
end

-- 3. The clocks, and bells for what is left.
if call('EXISTS', s_sorted) == 0 then
  call('DEL', s_fair) -- nobody waits: all tenants begin anew
elseif clock then
  local clocks, over = {}, {}
  for _, agent in ipairs(agents) do clocks[#clocks + 1], clocks[#clocks + 2] = int(clock), agent end
  call('ZADD', s_fair, 'GT', unpack(clocks))
  for _, name in ipairs(call('ZRANGEBYSCORE', s_fair, '-inf', int(clock), 'LIMIT', 0, 20)) do
    if own[string.match(name, '^(%S+) ') or ''] then over[#over + 1] = name end -- the tenant begins at the clock anyway
  end
  if #over > 0 then call('ZREM', s_fair, unpack(over)) end
end
for agent in pairs(bells) do
  if call('EXISTS', s_queue .. agent) == 1 then ring_bell(s_bell, agent) end
end
return {found, held, #found < most and looked >= 128, rest}

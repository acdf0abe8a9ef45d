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

local now = now_ms()
for _, session in ipairs(call('ZRANGEBYSCORE', s.ends, '-inf', int(now), 'LIMIT', 0, 100)) do end_hold(s, session) end

local own, bells, capped = {}, {}, call('EXISTS', s.limits) == 1
for _, agent in ipairs(agents) do own[agent], bells[agent] = true, true end

-- 1. What has arrived, and is not sorted yet.
local new, seen, rest = {}, {}, {}
local direct = named == '' and #arrived <= most and not capped and call('EXISTS', s.sorted, s.holds) == 0
if #arrived > 0 then
  local there, kept = call('ZMSCORE', s.ready, unpack(arrived)), call('HMGET', s.place, unpack(arrived))
  call('ZREM', s.ready, unpack(arrived)) -- first: a full Redis lets a script that has written go on
  for i, session in ipairs(arrived) do
    local taken = not string.match(since[i], '^[1-9]')
    if (there[i] or taken) and not kept[i] and not seen[session] then
      local agent = string.match(to[i], '^%S+')
      seen[session], direct = true, direct and own[agent]
      new[#new + 1] = {session = session, agent = agent, tenant = agent .. ' ' .. tenants[i], at = i}
    end
  end
end

if named == '' then rest = call('ZRANGE', s.ready, 0, 127, 'WITHSCORES') end
if #rest > 0 then direct, most = false, 0 end

local found, held = {}, {}
if direct then -- nobody waits, and there is room for all
  for i, one in ipairs(new) do found[i] = one.session end
  return result{found = found, held = held, more = false, rest = rest}
end

if #new > 0 then
  local names, tags = {}, {}
  for _, one in ipairs(new) do
    for _, name in ipairs{one.agent, one.tenant} do
      if not tags[name] then names[#names + 1], tags[name] = name, 0 end
    end
  end
  for i, tag in ipairs(call('ZMSCORE', s.fair, unpack(names))) do tags[names[i]] = tonumber(tag or 0) end
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
  call('HSET', s.place, unpack(kept))
  call('ZADD', s.sorted, unpack(waits))
  call('ZADD', s.fair, unpack(last))
  for agent, queue in pairs(queues) do call('ZADD', s.queue .. agent, unpack(queue)) end
end
let_held_on(s, now)

-- lowest(n) returns the n sessions with the lowest tags of all queues.
local function lowest(n)
  local all = {}
  for _, agent in ipairs(agents) do
    local list
    if named == '' then
      list = call('ZRANGE', s.queue .. agent, 0, n - 1, 'WITHSCORES')
    else
      list = {named, call('ZSCORE', s.queue .. agent, named)}
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
  local kept, holds = call('HMGET', s.place, unpack(sessions)), call('HMGET', s.holds, unpack(sessions))
  local gone, off = {}, {}
  for i, one in ipairs(heads) do
    local session, place = one.session, kept[i]
    gone[one.agent] = gone[one.agent] or {}
    table.insert(gone[one.agent], session)
    if place and string.match(place, '^%S+') == one.agent then
      local full, counts = holds[i] and 'session:' .. session, {}
      for limit in string.gmatch(capped and names_after(place) or '', '%S+') do
        local space = room_for(s, limit)
        if space and space <= 0 then full = full or limit elseif space then counts[#counts + 1] = limit end
      end
      if full then
        call('ZADD', s.held .. full, int(one.tag), session)
        call('ZADD', s.waits, 'NX', int(now + held_recheck), full)
        for _, limit in ipairs(counts) do call('ZADD', s.waits, 'XX', 0, limit) end -- it does not use their room
      else
        off[#off + 1], found[#found + 1] = session, session
        clock = named == '' and one.tag
        if #counts > 0 then
          held[#held + 1] = session
          for _, limit in ipairs(counts) do call('HINCRBY', s.running, limit, 1) end
          call('HSET', s.holds, session, token .. ' ' .. table.concat(counts, ' '))
          call('ZADD', s.ends, int(now + ttl), session)
        end
      end
    end
  end
  looked = looked + #heads
  for agent, list in pairs(gone) do call('ZREM', s.queue .. agent, unpack(list)) end
  if #off > 0 then
    call('HDEL', s.place, unpack(off))
    call('ZREM', s.sorted, unpack(off))
  end
end

-- 3. The clocks, and bells for what is left.
if call('EXISTS', s.sorted) == 0 then
  call('DEL', s.fair) -- nobody waits: all tenants begin anew
elseif clock then
  local clocks, over = {}, {}
  for _, agent in ipairs(agents) do clocks[#clocks + 1], clocks[#clocks + 2] = int(clock), agent end
  call('ZADD', s.fair, 'GT', unpack(clocks))
  for _, name in ipairs(call('ZRANGEBYSCORE', s.fair, '-inf', int(clock), 'LIMIT', 0, 20)) do
    if own[string.match(name, '^(%S+) ') or ''] then over[#over + 1] = name end -- the tenant begins at the clock anyway
  end
  if #over > 0 then call('ZREM', s.fair, unpack(over)) end
end
for agent in pairs(bells) do
  if call('EXISTS', s.queue .. agent) == 1 then ring_bell(s, agent) end
end
return result{found = found, held = held, more = #found < most and looked >= 128, rest = rest}

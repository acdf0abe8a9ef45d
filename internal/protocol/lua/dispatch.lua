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

local now, capped, bells = now_ms(), call('EXISTS', s.limits) == 1, {}

for _, session in ipairs(call('ZRANGEBYSCORE', s.ends, '-inf', int(now), 'LIMIT', 0, 100)) do end_hold(s, session) end

-- tag_of(agent, tenant, share) returns the tag of a tenant's next session.
local function tag_of(agent, tenant, share)
  local clocks = call('ZMSCORE', s.fair, agent, agent .. ' ' .. tenant)
  local tag = int(math.max(tonumber(clocks[1] or 0), tonumber(clocks[2] or 0)) + tonumber(share))
  call('ZADD', s.fair, tag, agent .. ' ' .. tenant)
  return tag
end

for i, session in ipairs(arrived) do
  local at = since[i] == '0' and int(now) or string.gsub(since[i], '^-', '')
  local there = call('ZREM', s.ready, session) == 1 -- first: a full Redis lets a script that has written go on
  if (there or at ~= since[i]) and call('HEXISTS', s.place, session) == 0 then
    local agent = string.match(to[i], '^%S+')
    call('HSET', s.place, session, to[i])
    call('ZADD', s.sorted, at, session)
    call('ZADD', s.queue .. agent, tag_of(agent, tenants[i], shares[i]), session)
    bells[agent] = true
  end
end
let_held_on(s, now)

-- The first of each queue: {tag, session}, or false.
local tops = {}
local function look(agent)
  local top
  if named == '' then
    top = call('ZRANGE', s.queue .. agent, 0, 0, 'WITHSCORES')
  else
    top = {named, call('ZSCORE', s.queue .. agent, named)}
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
  call('ZREM', s.queue .. agent, session)
  look(agent)
  local place = call('HGET', s.place, session)
  if place and string.match(place, '^%S+') == agent then
    local full, counts = room_for(s, 'session:' .. session) == 0 and 'session:' .. session, {}
    for limit in string.gmatch(capped and names_after(place) or '', '%S+') do
      local space = room_for(s, limit)
      if space and space <= 0 then full = full or limit elseif space then counts[#counts + 1] = limit end
    end
    if full then
      call('ZADD', s.held .. full, int(tag), session)
      call('ZADD', s.waits, 'NX', int(now + held_recheck), full)
      for _, limit in ipairs(counts) do call('ZADD', s.waits, 'XX', 0, limit) end -- it does not use their room
    else
      call('HDEL', s.place, session)
      call('ZREM', s.sorted, session)
      clock = named == '' and math.max(clock or 0, tag)
      found[#found + 1] = session
      if #counts > 0 then
        held[#held + 1] = session
        for _, limit in ipairs(counts) do call('HINCRBY', s.running, limit, 1) end
        call('HSET', s.holds, session, token .. ' ' .. table.concat(counts, ' '))
        call('ZADD', s.ends, int(now + ttl), session)
      end
    end
  end
end

if call('EXISTS', s.sorted) == 0 then
  call('DEL', s.fair) -- nobody waits: all tenants begin anew
elseif clock then
  local clocks = {}
  for _, agent in ipairs(agents) do clocks[#clocks + 1], clocks[#clocks + 2] = int(clock), agent end
  call('ZADD', s.fair, 'GT', unpack(clocks))
  local lowest = call('ZRANGE', s.fair, 0, 99, 'WITHSCORES')
  for i = 1, #lowest, 2 do -- a tenant at or below its agent's clock begins at that anyway
    local agent = string.match(lowest[i], '^(%S+) ')
    if agent and tonumber(lowest[i + 1]) <= tonumber(call('ZSCORE', s.fair, agent) or 0) then call('ZREM', s.fair, lowest[i]) end
  end
end
for _, agent in ipairs(agents) do bells[agent] = true end
for agent in pairs(bells) do
  if call('EXISTS', s.queue .. agent) == 1 then ring_bell(s, agent) end
end
return result{found = found, held = held, more = #found < most and looked == 128}

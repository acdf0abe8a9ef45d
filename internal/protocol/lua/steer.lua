-- steer: makes waiting messages that are to be steered in a part of the running turn: they are
-- acked or redelivered with it. It searches near either end of the queue. A message in the middle
-- of a longer queue, or without room in the turn, waits and becomes a separate turn.
--
-- KEYS sentinel run followups pending active
-- ARGS
--   s.task               prefix of the session's task hashes
--   s.prefix             of task ids
--   s.token
--   s.fence int
--   s.longest number     how many bytes one task's msg may have
--   ttl int              the sentinel's, ms
--   most number          messages of a turn
--   room number          bytes of their tasks
--   known list           ids of the turn's tasks that the owner knows of
-- RETURNS
--   'ok' messages:message more:flag     messages: those that the owner does not know of, as they are new or an
--     earlier reply was lost; more: 1 if there may be more
--   'lost'
--   message: id msg age:ms redelivered:int unique:flag steer:flag     as in claim

local run = fields(s.run, 'token', 'fence', 'ids', 'stop', 'rollback', 'interrupt')
if not owned(s, run) then return lost{} end
local now, ids, knows = now_ms(), cjson.decode(run.ids), {}
for _, id in ipairs(known) do knows[id] = true end

local steered, waiting = {}, call('LLEN', s.pending)

-- consider(id, from_end) returns whether the turn has room for more. It adds a message with the
-- mode steer to steered. from_end is LREM's count, for the nearer end: 1 the newest, -1 the oldest.
local function consider(id, from_end)
  local t, own = fields(s.task .. id, 'state', 'steer'), own_id(s, id)
  if t.state ~= 'pending' or not t.steer then return true end
  local e = call('HGET', s.followups, own)
  local from, to = string.find(e or '', '"state":"queued"', 1, true)
  if not from then return true end
  local bytes = call('HSTRLEN', s.task .. id, 'msg')
  if bytes > s.longest then return true end -- a claim archives it
  room = room - bytes
  if room < 0 or #ids + #steered >= most then return false end
  steered[#steered + 1] = {id = id, own = own, followup = string.sub(e, 1, from - 1) .. '"state":"steered"' .. string.sub(e, to + 1), from_end = from_end}
  return true
end

-- A turn that is to end takes no more messages: a /stop does not apply to later ones.
if requested(run, s.fence) == '' and #ids < most then
  for _, id in ipairs(ids) do room = room - call('HSTRLEN', s.task .. id, 'msg') end
  local fits = room > 0
  local oldest = fits and call('LRANGE', s.pending, -NEAR, -1) or {} -- newest first
  for i = #oldest, 1, -1 do
    fits = fits and consider(oldest[i], -1)
  end
  if fits and waiting > NEAR then
    local newest = call('LRANGE', s.pending, 0, math.min(NEAR, waiting - NEAR) - 1)
    for i = #newest, 1, -1 do
      fits = fits and consider(newest[i], 1)
    end
  end
  waiting = fits and waiting or 0
else
  waiting = 0
end
-- After steering, other messages move into the searched part of the queue.
local more = #steered > 0 and waiting > 2 * NEAR
call('LLEN', s.active)

call('PEXPIRE', s.sentinel, ttl)
for _, t in ipairs(steered) do
  if call('LREM', s.pending, t.from_end, t.id) == 1 then
    call('LPUSH', s.active, t.id)
    call('HSET', s.task .. t.id, 'state', 'active')
    call('HSET', s.followups, t.own, t.followup)
    ids[#ids + 1] = t.id
  end
end
if #steered > 0 then call('HSET', s.run, 'ids', cjson.encode(ids)) end
if not more then call('HDEL', s.run, 'steer') end
local new = {}
for _, id in ipairs(ids) do
  if not knows[id] then new[#new + 1] = id end
end
return ok{messages = message_records(s, new, now), more = more and 1 or 0}

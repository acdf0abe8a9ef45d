-- ring: the sender tells of a message that it has just enqueued, or finds again
-- under its id. Safe to repeat.
--
-- ARGV[2] task id                 ARGV[5] busy mode, or '' for the owner's
-- ARGV[3] nonce of this sender    ARGV[6] prefix of task ids
-- ARGV[4] follow-up, JSON object
--
-- Answers {now, status, n, 1 if the task is this sender's own}:
--   'queued'     behind a turn; n = its position, the running turn counted
--   'idle'       nothing runs: the session is to be claimed; n = when, ms
--   'scheduled'  n = when, ms
--   'running', 'completed', 'archived', 'gone'
--   'busy'       refused, a turn is running; the task is removed
--   'full'       refused, n = the cap; the task is removed
-- Only the task that carries the sender's own nonce is ever removed.

local id, nonce, prefix = ARGV[2], ARGV[3], ARGV[6]
local now = now_ms()

local t = call('HMGET', task .. id, 'state', 'msg', 'seen', 'seq')
local state = t[1]
local told = call('HGET', followups, own_id(prefix, id))
if told and string.sub(told, 1, 11) == '{"refused":' then
  -- An earlier sending's refusal: repeated to the same sender, forgotten for others.
  if not state and string.find(told, nonce, 1, true) then
    local t = cjson.decode(told)
    return {now, t.refused, t.cap, 1}
  end
  told = false
end
if not state then return {now, 'gone', 0, 0} end
local mine = string.find(t[2], nonce, 1, true) and 1 or 0
local r = call('HMGET', run, 'token', 'worker', 'fence', 'phase', 'mode', 'cap', 'hold')
local created = call('HGET', record, 'created_at')

-- born(): the session's record begins with its first message.
local function born()
  if not created then call('HSET', record, 'v', '1', 'created_at', int(now)) end
end

if state == 'active' then return {now, 'running', 1, mine} end
if state == 'completed' or state == 'archived' then return {now, state, 0, mine} end
if state ~= 'pending' then
  local at = tonumber(call('ZSCORE', state == 'retry' and retry or scheduled, id) or 0) * 1000
  if not t[4] then
    born()
    call('HSET', task .. id, 'seq', call('HINCRBY', record, 'seq', 1), 'seen', int(math.max(at, now)))
  end
  return {now, 'scheduled', at, mine}
end

local owner = call('GET', sentinel)
local waiting = call('LLEN', pending)
born()
if not t[3] then call('HSET', task .. id, 'seen', int(now)) end
if not owner or owner ~= r[1] then
  return {now, 'idle', next_at(r[7], now) or now, mine}
end

local mode = ARGV[5] ~= '' and ARGV[5] or r[5]
local refusal = false
if mine == 1 and not told then
  if mode == 'reject' then
    refusal = 'busy'
  elseif waiting > (tonumber(r[6]) or waiting) then
    refusal = 'full'
  end
end
if refusal then
  call('LREM', pending, 1, id)
  call('DEL', task .. id)
  call('HSET', followups, own_id(prefix, id),
    '{"refused":"' .. refusal .. '","nonce":"' .. nonce .. '","cap":' .. (tonumber(r[6]) or 0) .. '}')
  -- Refusals are kept for senders whose answer got lost, not for ever.
  if call('HLEN', followups) > waiting + 64 then
    local all = call('HGETALL', followups)
    for i = 1, #all, 2 do
      if all[i] ~= own_id(prefix, id) and string.sub(all[i + 1], 1, 11) == '{"refused":' then call('HDEL', followups, all[i]) end
    end
  end
  return {now, refusal, tonumber(r[6]) or 0, mine}
end

local position
if mode == 'interrupt' and r[4] == 'running' and not told then
  call('LREM', pending, 1, id)
  call('RPUSH', pending, id)
  call('HSET', run, 'interrupt', r[3])
  call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"interrupt","token":"' .. owner .. '","fence":' .. r[3] .. '}')
  position = 2
elseif call('LINDEX', pending, 0) == id then
  position = waiting + 1
else
  position = waiting - (call('LPOS', pending, id) or 0) + 1
end
if not told then
  call('HSET', followups, own_id(prefix, id),
    '{"order":' .. position .. ',"arrived_at":' .. int(now) .. ',"state":"queued",' .. string.sub(ARGV[4], 2))
end
return {now, 'queued', position, mine}

-- ring: the sender tells of a message that it has just enqueued, or finds again
-- under its id. Safe to repeat. From a line that is too full it drops at most 100
-- messages or about 4 MiB: what is still too much, the next ones drop.
--
-- ARGV[2] task id                 ARGV[5] busy mode, or '' for the session's
-- ARGV[3] nonce of this sender    ARGV[6] prefix of task ids
-- ARGV[4] follow-up, JSON object  ARGV[7] cap of the event stream
-- ARGV[8] the session's key
-- ARGV[9] '1': a task with its id was there before
-- ARGV[10] how many bytes a task's msg may have
-- ARGV[11] how many messages may wait, at most half of them (rounded up) delayed
--
-- Answers {now, status, n, 1 if the task is this sender's own}:
--   'queued'     behind a turn; n = its position, the running turn counted
--   'idle'       nothing runs: the session is to be claimed; n = when, ms
--   'scheduled'  n = when, ms
--   'running', 'completed', 'archived', 'gone'
--   'busy'       refused, a turn is running; the task is removed
--   'full'       refused, n = the cap of follow-ups; the task is removed
--   'line'       refused, n = ARGV[11]; the task is removed
-- Only the task that carries the sender's own nonce is ever removed.

local MOST, BYTES = 100, 4 * 1024 * 1024 -- that one call drops
local NEWEST = 1000 -- how far from the line's end a message is looked for
local id, nonce, prefix = ARGV[2], ARGV[3], ARGV[6]
local now, own = now_ms(), own_id(prefix, id)

-- What this sender has just put in is not too long; what it has found may be.
local longest = tonumber(ARGV[10])
local msg = ARGV[9] == '1' and too_long(id, longest) and 'nonce' or 'msg' -- there is no field nonce
local t = call('HMGET', task .. id, 'state', msg, 'seen', 'seq')
local state = t[1]
if not state then
  local refused, most = string.match(call('GET', answer_key) or '', '^(%S+) (%d+)$') -- earlier
  if refused then return {now, refused, tonumber(most), 1} end
  return {now, 'gone', 0, 0}
end
local told, of_another = call('HGET', followups, own), false
if told then
  of_another = not was_rung(t[3], t[4])
  -- It may be a refusal, which senders of an older version keep here.
  if of_another or string.sub(told, 1, 11) == '{"refused":' then told = false end
end
local mine = t[2] and string.find(t[2], nonce, 1, true) and 1 or 0
local r = call('HMGET', run, 'token', 'worker', 'fence', 'phase', 'mode', 'cap', 'hold', 'drop', 'debounce', 'warm')
local rec = call('HMGET', record, 'created_at', 'queue')
local ok, set = try(cjson.decode, rec[2] or '{}') -- by /queue
if not ok or type(set) ~= 'table' then set = {} end

-- within(n, least, most): a setting as a whole number; false: it says nothing, as
-- all that cannot be read, or that only a newer version knows.
local function within(n, least, most)
  n = tonumber(n)
  return n and n >= least and n <= most and math.floor(n)
end
local policies = {new = 'new', old = 'old', summarize = 'summarize'}

-- seen(at): the session's record begins with its first message; a message has its
-- place among others and its age from here on.
local function seen(at)
  if of_another then call('HDEL', followups, own) end
  if not rec[1] then call('HSET', record, 'v', '1', 'created_at', int(now)) end
  if not t[4] then
    local seq = pcall('HINCRBY', record, 'seq', 1)
    if type(seq) ~= 'number' then -- it cannot be read
      seq = 1
      call('HSET', record, 'seq', seq)
    end
    call('HSET', task .. id, 'seq', seq)
  end
  if not t[3] then call('HSET', task .. id, 'seen', int(at)) end
end

if state == 'active' then return {now, 'running', 1, mine} end
if state == 'completed' or state == 'archived' then return {now, state, 0, mine} end
local line_cap = tonumber(ARGV[11])
local delayed_cap = math.ceil(line_cap / 2)
local fresh = mine == 1 and not t[4] -- not rung for before
local waiting = call('LLEN', pending)
if state ~= 'pending' then
  local at = tonumber(call('ZSCORE', state == 'retry' and retry or scheduled, id) or 0) * 1000
  local delayed = fresh and call('ZCARD', scheduled) or 0
  seen(math.max(at, now))
  if delayed > delayed_cap or fresh and delayed + waiting > line_cap then
    call('ZREM', state == 'retry' and retry or scheduled, id)
    call('DEL', task .. id)
    keep_answer('line', int(line_cap))
    return {now, 'line', line_cap, mine}
  end
  return {now, 'scheduled', at, mine}
end

local owner = call('GET', sentinel)
local busy = owner and owner == r[1]
local mode = ARGV[5]
if mode == '' then mode = type(set.mode) == 'string' and set.mode or r[5] or 'queue' end
local cap = within(set.cap, 1, 10000) or tonumber(r[6]) or waiting
local drop = policies[set.drop] or policies[r[8]] or 'new'
-- What is collected waits for more, also behind others that already wait for more.
local collected = mode == 'collect' and not told and (busy or waiting > 1)
local quiet = int(now + (within(set.debounce_ms, 0, 3600000) or tonumber(r[9]) or 0)) .. ' ' .. int(math.max(cap, 1))

-- Delayed messages are counted only where they matter: they have a half at most.
local over = waiting > line_cap or waiting > line_cap - delayed_cap and waiting + call('ZCARD', scheduled) > line_cap

-- Its place, from the end of the line. False: so many have come behind it that it
-- stays there, whatever it wants, or a /stop has put it aside.
local place = 0
if (busy or over) and call('LINDEX', pending, 0) ~= id then place = call('LPOS', pending, id, 'MAXLEN', NEWEST) end

-- What takes the running turn's place makes room itself.
local first = mode == 'interrupt' or mode == 'rollback'
local urgent = first and r[4] == 'running' and place
local full = waiting > cap and not urgent

local refusal, drops, most = false, {}, cap
if busy and mine == 1 and not told and place then
  if mode == 'reject' then
    refusal = 'busy'
  elseif full and drop == 'new' then
    refusal = 'full'
  elseif full then
    local most = math.min(waiting - cap, MOST)
    local oldest, bytes = call('LRANGE', pending, -most - 1, -1), 0
    for i = #oldest, 1, -1 do
      if #drops == most or bytes >= BYTES then break end
      local old = oldest[i]
      local o = call('HMGET', task .. old, 'first', 'seen', 'seq')
      local ahead, read = goes_first(own_id(prefix, old), o[1], o[2], o[3])
      local msg, unique = load_short(old, longest)
      if msg and old ~= id and not ahead then drops[#drops + 1] = {old, msg, unique} end
      bytes = bytes + #(msg or '') + read
    end
    call('ZCARD', archived)
  end
end
-- Whoever drops others makes room itself.
if over and fresh and place and not refusal and #drops == 0 then refusal, most = 'line', line_cap end

seen(now)
if refusal then
  call('LREM', pending, 1, id)
  call('DEL', task .. id)
  keep_answer(refusal, int(most))
  return {now, refusal, most, mine}
end

if collected then call('HSET', task .. id, 'quiet', quiet) end
if mode == 'steer' and busy and not told then call('HSET', task .. id, 'steer', '1') end -- for steer.lua
if not busy then
  local at = next_at(r[7], now) or now
  if collected and waiting >= cap then at = now end -- as many wait no longer
  -- The last owner may have kept the session's agent: it hears of the message a
  -- little before the others do, who do not wait for it.
  if r[10] == '1' and not owner and at <= now then
    call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"ready","session":"' .. ARGV[8] .. '"}')
  end
  return {now, 'idle', at, mine}
end

for _, d in ipairs(drops) do
  local why = 'dropped: more than ' .. cap .. ' messages were waiting'
  local outcome = '{"type":"turn_ended","status":"dropped","messages":[' .. quote(own_id(prefix, d[1])) ..
    '],"error":"' .. why .. '","reason":"' .. drop .. '"}'
  call('LREM', pending, -1, d[1])
  move_to_archive(d[1], d[2], d[3], why, outcome, now)
  call('HDEL', followups, own_id(prefix, d[1]))
  announce(run, events, ARGV[7], outcome)
end
count_archived(#drops)
if drop == 'summarize' and #drops > 0 then note_dropped(drops) end
waiting = waiting - #drops

-- signal(kind): asks something of the turn that runs now, and of no other.
local function signal(kind)
  call('HSET', run, kind, r[3])
  call('PUBLISH', 'turnstile:signal:' .. r[2], '{"kind":"' .. kind .. '","token":"' .. owner .. '","fence":' .. r[3] .. '}')
end

local position
if urgent and not told then
  call('LREM', pending, 1, id)
  call('RPUSH', pending, id)
  signal(mode)
  position = 2
elseif place then
  position = waiting - place + 1
else
  local order = string.match(told or '', '"order":(%d+)')
  position = order and tonumber(order) or math.max(waiting - NEWEST + 1, 2)
end
if not told then
  if first then call('HSET', task .. id, 'first', '1') end
  call('HSET', followups, own, '{"mode":"' .. mode .. '","order":' .. position .. ',"arrived_at":' .. int(now) ..
    ',"state":"' .. (collected and 'collected' or 'queued') .. '",' .. string.sub(ARGV[4], 2))
  if mode == 'steer' then signal('steer') end
  announce(run, events, ARGV[7], '{"type":"queued","messages":[' .. quote(own) ..
    '],"mode":"' .. mode .. '","position":' .. position .. '}')
end
return {now, 'queued', position, mine}

-- notify: notifies workers of a message that the sender has just enqueued, or has found under its
-- id. Safe to repeat. One call drops at most 100 messages or about 4 MiB from a line that is too
-- long. Later calls drop the rest.
--
-- KEYS sentinel run record followups events pending scheduled retry processed processed_day archived failed failed_day call
-- ARGS
--   s.task                prefix of the session's task hashes
--   s.prefix              of task ids
--   s.events_cap          see append_event
--   s.short number        bytes
--   s.large_bytes
--   s.longest number      how many bytes a task's msg may have
--   session               its key
--   id                    of the task
--   nonce                 of this sender
--   followup              JSON object
--   mode                  busy mode, or '' for the session's
--   found flag            a task with its id existed before
--   line_cap number       how many messages may wait, at most half of them (rounded up) delayed
-- RETURNS
--   result: now status n mine
--     mine: 1 if the task is this sender's own. status:
--     'queued'     behind a turn; n = its position, which counts the running turn
--     'idle'       nothing runs: the session is to be claimed; n = when, ms
--     'scheduled'  n = when, ms
--     'running', 'completed', 'archived', 'gone'
--     'busy'       refused, a turn is running; the task is removed
--     'full'       refused, n = the cap of follow-ups; the task is removed
--     'line'       refused, n = line_cap; the task is removed
--
-- Only a task that carries the sender's own nonce is ever removed.

local MOST, BYTES = 100, 4 * 1024 * 1024 -- that one call drops
local NEWEST = 1000 -- ids at the end of the line among which a message is searched
local now, own = now_ms(), own_id(s, id)

-- A message that this sender has just enqueued is not too long. One that it has found may be.
local t = fields(s.task .. id, 'state', 'seen', 'seq')
local msg = not (found and too_long(s, id)) and call('HGET', s.task .. id, 'msg')
local state = t.state
if not state then
  local refused, most = string.match(call('GET', s.call) or '', '^(%S+) (%d+)$') -- by an earlier call
  if refused then return result{now = now, status = refused, n = tonumber(most), mine = 1} end
  return result{now = now, status = 'gone', n = 0, mine = 0}
end
local known, of_another = call('HGET', s.followups, own), false
if known then
  of_another = not was_notified(t.seen, t.seq)
  -- Senders of an older version store refusals here.
  if of_another or string.sub(known, 1, 11) == '{"refused":' then known = false end
end
local mine = msg and string.find(msg, nonce, 1, true) and 1 or 0
local run = fields(s.run, 'token', 'worker', 'fence', 'phase', 'mode', 'cap', 'hold', 'drop', 'debounce', 'warm')
local record = fields(s.record, 'created_at', 'queue')
local ok, set = try(cjson.decode, record.queue or '{}') -- by /queue
if not ok or type(set) ~= 'table' then set = {} end

-- within(n, least, most) returns a setting as a whole number. It returns false, as for no setting,
-- if that cannot be read, or is one that only a newer version knows.
local function within(n, least, most)
  n = tonumber(n)
  return n and n >= least and n <= most and math.floor(n)
end
local policies = {new = 'new', old = 'old', summarize = 'summarize'}

-- mark_seen(at) gives the message its place among others and its age. The session's first message
-- begins the session's record.
local function mark_seen(at)
  if of_another then call('HDEL', s.followups, own) end
  if not record.created_at then call('HSET', s.record, 'v', '1', 'created_at', int(now)) end
  if not t.seq then
    local seq = pcall('HINCRBY', s.record, 'seq', 1)
    if type(seq) ~= 'number' then -- it cannot be read
      seq = 1
      call('HSET', s.record, 'seq', seq)
    end
    call('HSET', s.task .. id, 'seq', seq)
  end
  if not t.seen then call('HSET', s.task .. id, 'seen', int(at)) end
end

if state == 'active' then return result{now = now, status = 'running', n = 1, mine = mine} end
if state == 'completed' or state == 'archived' then return result{now = now, status = state, n = 0, mine = mine} end
local delayed_cap = math.ceil(line_cap / 2)
local fresh = mine == 1 and not t.seq -- not notified of before
local waiting = call('LLEN', s.pending)
if state ~= 'pending' then
  local at = tonumber(call('ZSCORE', state == 'retry' and s.retry or s.scheduled, id) or 0) * 1000
  local delayed = fresh and call('ZCARD', s.scheduled) or 0
  mark_seen(math.max(at, now))
  if delayed > delayed_cap or fresh and delayed + waiting > line_cap then
    call('ZREM', state == 'retry' and s.retry or s.scheduled, id)
    call('DEL', s.task .. id)
    keep_result(s, 'line', int(line_cap))
    return result{now = now, status = 'line', n = line_cap, mine = mine}
  end
  return result{now = now, status = 'scheduled', n = at, mine = mine}
end

local owner = call('GET', s.sentinel)
local busy = owner and owner == run.token
if mode == '' then mode = type(set.mode) == 'string' and set.mode or run.mode or 'queue' end
local cap = within(set.cap, 1, 10000) or tonumber(run.cap) or waiting
local drop = policies[set.drop] or policies[run.drop] or 'new'
-- A collected message waits for more, also behind others that already wait for more.
local collected = mode == 'collect' and not known and (busy or waiting > 1)
local quiet = int(now + (within(set.debounce_ms, 0, 3600000) or tonumber(run.debounce) or 0)) .. ' ' .. int(math.max(cap, 1))

-- Delayed messages are counted only where they matter: they may be half of the line.
local over = waiting > line_cap or waiting > line_cap - delayed_cap and waiting + call('ZCARD', s.scheduled) > line_cap

-- Its place, from the end of the line. False: so many have come behind it that it stays there in
-- any mode, or a /stop has taken it out of the line.
local place = 0
if (busy or over) and call('LINDEX', s.pending, 0) ~= id then place = call('LPOS', s.pending, id, 'MAXLEN', NEWEST) end

-- A message that takes the running turn's place makes room itself.
local first = mode == 'interrupt' or mode == 'rollback'
local urgent = first and run.phase == 'running' and place
local full = waiting > cap and not urgent

local refusal, drops, most = false, {}, cap
if busy and mine == 1 and not known and place then
  if mode == 'reject' then
    refusal = 'busy'
  elseif full and drop == 'new' then
    refusal = 'full'
  elseif full then
    local most = math.min(waiting - cap, MOST)
    local oldest, bytes = call('LRANGE', s.pending, -most - 1, -1), 0
    for i = #oldest, 1, -1 do
      if #drops == most or bytes >= BYTES then break end
      local old = oldest[i]
      local o = fields(s.task .. old, 'first', 'seen', 'seq')
      local ahead, read = goes_first(s, own_id(s, old), o)
      local msg, unique = load_short(s, old)
      if msg and old ~= id and not ahead then drops[#drops + 1] = {id = old, msg = msg, unique = unique} end
      bytes = bytes + #(msg or '') + read
    end
    call('ZCARD', s.archived)
  end
end
-- A message that drops others makes room itself.
if over and fresh and place and not refusal and #drops == 0 then refusal, most = 'line', line_cap end

mark_seen(now)
if refusal then
  call('LREM', s.pending, 1, id)
  call('DEL', s.task .. id)
  keep_result(s, refusal, int(most))
  return result{now = now, status = refusal, n = most, mine = mine}
end

if collected then call('HSET', s.task .. id, 'quiet', quiet) end
if mode == 'steer' and busy and not known then call('HSET', s.task .. id, 'steer', '1') end -- for steer.lua
if not busy then
  local at = next_at(s, run.hold, now) or now
  if collected and waiting >= cap then at = now end -- with so many messages the wait is over
  -- The last owner may have a warm agent of the session: it gets the message's signal a little
  -- before the other workers, which do not wait for it.
  if run.warm == '1' and not owner and at <= now then
    call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"ready","session":"' .. session .. '"}')
  end
  return result{now = now, status = 'idle', n = at, mine = mine}
end

for _, d in ipairs(drops) do
  local why = 'dropped: more than ' .. cap .. ' messages were waiting'
  local outcome = '{"type":"turn_ended","status":"dropped","messages":[' .. quote(own_id(s, d.id)) ..
    '],"error":"' .. why .. '","reason":"' .. drop .. '"}'
  call('LREM', s.pending, -1, d.id)
  archive(s, d.id, d.msg, d.unique, why, outcome, now)
  call('HDEL', s.followups, own_id(s, d.id))
  append_event(s, outcome)
end
count_archived(s, #drops)
if drop == 'summarize' and #drops > 0 then note_dropped(s, drops) end
waiting = waiting - #drops

-- signal(kind) requests this of the turn that runs now, and of no other.
local function signal(kind)
  call('HSET', s.run, kind, run.fence)
  call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"' .. kind .. '","token":"' .. owner .. '","fence":' .. run.fence .. '}')
end

local position
if urgent and not known then
  call('LREM', s.pending, 1, id)
  call('RPUSH', s.pending, id)
  signal(mode)
  position = 2
elseif place then
  position = waiting - place + 1
else
  local order = string.match(known or '', '"order":(%d+)')
  position = order and tonumber(order) or math.max(waiting - NEWEST + 1, 2)
end
if not known then
  if first then call('HSET', s.task .. id, 'first', '1') end
  call('HSET', s.followups, own, '{"mode":"' .. mode .. '","order":' .. position .. ',"arrived_at":' .. int(now) ..
    ',"state":"' .. (collected and 'collected' or 'queued') .. '",' .. string.sub(followup, 2))
  if mode == 'steer' then signal('steer') end
  append_event(s, '{"type":"queued","messages":[' .. quote(own) .. '],"mode":"' .. mode .. '","position":' .. position .. '}')
end
return result{now = now, status = 'queued', n = position, mine = mine}

-- accept: stores a message, unless there is one with its id, and notifies the session's owner. Safe
-- to repeat. One call drops at most 100 messages or about 4 MiB from a queue that is too long.
-- Later calls drop the rest.
--
-- The fast path is for the common case: a new message without a delay or a route, for a session
-- without an owner. It accepts messages of many sessions in one call. In other cases it does
-- nothing, and the sender sends the full path.
--
-- KEYS fast: sentinel run record followups pending idem
-- KEYS full: sentinel run record followups events pending active scheduled retry processed processed_day archived failed
-- KEYS full: failed_day owed outbox deliveries idem
-- ARGS full
--   s.events_cap int      see append_event
--   s.short number        bytes
--   s.large_bytes int
--   s.longest number      how many bytes a task's msg may have
-- EACH
--   s.task                prefix of the session's task hashes
--   session               its key
--   id                    of the task
--   msg                   the task, as asynq encodes it
--   nonce                 of this sender, in msg
--   mode                  busy mode, or '' for the session's
--   line_cap number       how many messages may wait, at most half of them (rounded up) delayed
--   to                    destination of the outcome; '': the session's own, else fallback; '-': none
--   hash                  of the message as the sender wants it, if it chose the id, else ''
--   idem_ttl int          how long another hash is a conflict, ms
-- EACH full
--   s.prefix              of task ids
--   delay number          how long it waits before it joins the queue, ms
--   followup              JSON object
--   fallback              destination, or ''
--   context               JSON for the destination, or ''
--   deliver_by number     deadline of the delivery, ms; 0: the destination's
--   lasts number          the same from now on, ms; 0: see deliver_by
--   outbox_cap number     how many deliveries the session may owe and store
--   after                 id of the task that it must directly follow, or ''
--   agent                 that the session gets with it; '': the one by its key
--   full list             destinations that have reached their cap over all sessions
-- RETURNS
--   result: now:int state n:int duplicate:flag
--     duplicate: 1 if there was a message with its id, of another Send. state:
--     'queued'     behind a turn; n = its position, which counts the running turn
--     'ends'       likewise, and the turn is to end or its owner died: the session is to be claimed
--     'idle'       nothing runs: the session is to be claimed; n = when, ms
--     'scheduled'  n = when, ms
--     'running', 'completed', 'archived'; 'completed' also of this call, repeated after the result
--       was deleted
--     'busy'       refused: a turn is running, or has begun and waits till n, ms
--     'full'       refused, n = the cap of follow-ups
--     'line'       refused, n = line_cap
--     'outbox'     refused, n = outbox_cap, also for a destination in full
--     'not_last'   refused: another message than after is the session's last
--     'agent'      refused: the session has another agent
--     'conflict'   refused: the id was used with another hash
--     'expired'    refused: it was carried out with this hash, and is no longer there
--   'special'      the fast path has done nothing
--
-- A refused message is not stored, and its id is free: a repetition of the call decides again.

local now = now_ms()

-- signal_warm(run, session) notifies the last owner, which may have a warm agent of the session, a
-- little before the other workers.
local function signal_warm(run, session)
  if run.warm == '1' then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"ready","session":"' .. session .. '"}') end
end
-- FAST
if call('EXISTS', s.sentinel, s.followups, s.idem, s.task .. id) ~= 0 then return false end
local run, record = fields(s.run, 'mode', 'phase', 'worker', 'warm'), fields(s.record, 'created_at', 'queue', 'reply_to')
if run.phase == nil or record.queue == nil or (run.phase or 'idle') ~= 'idle' or to == '' and (record.reply_to or '') ~= '' then return false end
local waiting, seq = call('LPUSH', s.pending, id), false
if type(waiting) ~= 'number' then return false end
-- After other messages, one may exceed the cap, be collected, or wait for collected ones. If the
-- cap is one, even the first may exceed it: delayed messages count.
if waiting == 1 and line_cap > 1 or waiting <= line_cap - math.ceil(line_cap / 2) and mode ~= 'collect' and run.mode ~= 'collect' and not record.queue
  and not call('HGET', s.task .. call('LINDEX', s.pending, '-1'), 'quiet') then
  seq = call('HINCRBY', s.record, 'seq', '1')
end
if type(seq) ~= 'number' then
  call('LREM', s.pending, '1', id)
  return false
end
call('HSET', s.task .. id, 'msg', msg, 'state', 'pending', 'seq', seq, 'seen', int(now), 'pending_since', int(now) .. '000000')
if hash ~= '' then call('SET', s.idem, hash .. ' ' .. nonce, 'PX', idem_ttl) end
if not record.created_at then call('HSET', s.record, 'v', '1', 'created_at', int(now)) end
signal_warm(run, session)
return result{now = now, state = 'idle', n = now, duplicate = 0}
-- FULL
local MOST, BYTES = 100, 4 * 1024 * 1024 -- that one call drops
local NEWEST = 1000 -- ids at the end of the queue among which a message is searched
local own = own_id(s, id)

-- 1. The id's record.
local t = fields(s.task .. id, 'state', 'seen', 'seq')
local new, used = not t.state, hash ~= '' and call('GET', s.idem)
if used and string.sub(used, 1, #hash) ~= hash then return result{now = now, state = 'conflict', n = 0, duplicate = 0} end
if new and used then
  if used == hash .. ' ' .. nonce then return result{now = now, state = 'completed', n = 0, duplicate = 0} end
  return result{now = now, state = 'expired', n = 0, duplicate = 0}
end
local state, duplicate = t.state or delay > 0 and 'scheduled' or 'pending', 0
if not new then
  local found = not too_long(s, id) and call('HGET', s.task .. id, 'msg')
  if not found or not string.find(found, nonce, 1, true) then duplicate = 1 end
end
local known, of_another = call('HGET', s.followups, own), false
if known then
  of_another = not was_notified(t.seen, t.seq)
  if of_another then known = false end
end
local run = fields(s.run, 'token', 'worker', 'fence', 'phase', 'mode', 'cap', 'hold', 'drop', 'debounce', 'warm', 'stop', 'rollback', 'interrupt', 'question')
local record = fields(s.record, 'created_at', 'queue', 'reply_to', 'agent', 'fence')
local ok, set = try(cjson.decode, record.queue or '{}') -- by /queue
if not ok or type(set) ~= 'table' then set = {} end

-- within(n, least, most) returns a setting as a whole number. It returns false, as for no setting,
-- if it cannot be read or only a newer version knows it.
local function within(n, least, most)
  n = tonumber(n)
  return n and n >= least and n <= most and math.floor(n)
end
local policies = {new = 'new', old = 'old', summarize = 'summarize'}

-- next_seq() returns a new message's place among others.
local function next_seq()
  local seq = pcall('HINCRBY', s.record, 'seq', 1)
  if type(seq) == 'number' then return seq end
  call('HSET', s.record, 'seq', 1) -- it cannot be read
  return 1
end

-- 2. Its agent, and where the outcome goes.
local bound = record.agent or record.fence and DEFAULT_AGENT
if new and agent ~= '' and bound and bound ~= agent then return result{now = now, state = 'agent', n = 0, duplicate = 0} end
if to == '' then to = record.reply_to or fallback end
local routed, owed = new and to ~= '' and to ~= '-', false
if routed then
  check_outbox(s)
  owed = call('HGET', s.owed, own) -- to a message with this id that an operator has deleted
  for _, name in ipairs(full) do
    if name == to then return result{now = now, state = 'outbox', n = outbox_cap, duplicate = 0} end
  end
  if call('HLEN', s.owed) + call('ZCARD', s.outbox) >= outbox_cap then return result{now = now, state = 'outbox', n = outbox_cap, duplicate = 0} end
end

-- store(at, ...) stores the task of a new message, first seen at that time, with further fields.
local function store(at, ...)
  call('HSET', s.task .. id, 'msg', msg, 'state', state, 'seq', next_seq(), 'seen', int(at), ...)
  if routed then
    local route = to .. ' - ' .. context
    call('HSET', s.task .. id, 'route', route)
    if owed then keep_promises(s, {{id = id, route = owed}}, removed(own), now) end
    promise(s, id, route)
    if lasts > 0 then deliver_by = now + lasts end
    if deliver_by > 0 then call('HSET', s.deliveries, 'deliver_by ' .. own, int(deliver_by)) end
  end
  if agent ~= '' and not bound then call('HSET', s.record, 'agent', agent) end
  if hash ~= '' then call('SET', s.idem, hash .. ' ' .. nonce, 'PX', idem_ttl) end
end

-- mark_seen(at) gives an existing message its place among others and its age. The session's first
-- message creates the session's record.
local function mark_seen(at)
  if of_another then call('HDEL', s.followups, own) end
  if not record.created_at then call('HSET', s.record, 'v', '1', 'created_at', int(now)) end
  if new then return end
  if not t.seq then call('HSET', s.task .. id, 'seq', next_seq()) end
  if not t.seen then call('HSET', s.task .. id, 'seen', int(at)) end
end

-- 3. A message that runs, ended or is delayed.
if state == 'active' then return result{now = now, state = 'running', n = 1, duplicate = duplicate} end
if state == 'completed' or state == 'archived' then return result{now = now, state = state, n = 0, duplicate = duplicate} end
local delayed_cap = math.ceil(line_cap / 2)
local waiting = call('LLEN', s.pending)
if state ~= 'pending' then
  local score = math.floor((now + delay) / 1000)
  if new then
    local delayed = call('ZCARD', s.scheduled) + 1
    if delayed > delayed_cap or delayed + waiting > line_cap then
      return result{now = now, state = 'line', n = line_cap, duplicate = 0}
    end
    store(math.max(score * 1000, now))
    call('ZADD', s.scheduled, int(score), id)
  else
    score = tonumber(call('ZSCORE', state == 'retry' and s.retry or s.scheduled, id) or 0)
  end
  mark_seen(math.max(score * 1000, now))
  return result{now = now, state = 'scheduled', n = score * 1000, duplicate = duplicate}
end
-- 4. A message that must follow another one.
if new and after ~= '' then
  local follows = call('LINDEX', s.pending, 0) == after
  if waiting == 0 then
    local last = fields(s.run, 'ids', 'sid', 'fence')
    local ok, ids = try(cjson.decode, last.ids or '[]')
    for _, other in ipairs(ok and type(ids) == 'table' and ids or {}) do follows = follows or other == after end
    local talk = fields(s.record, 'session_id', 'undone')
    -- /new has begun another transcript, or /undo has removed the last turn.
    if talk.session_id ~= last.sid or string.match(talk.undone or '', '^%d+ (%S+)') == s.prefix .. (last.fence or '') then follows = false end
  end
  if not follows then return result{now = now, state = 'not_last', n = 0, duplicate = 0} end
end
if new then waiting = waiting + 1 end

-- 5. Whether there is a turn, and the message's mode. A turn without an owner is parked, or its owner died. If
-- its messages were deleted, nothing is left to wait for.
local owner = call('GET', s.sentinel)
local ownerless = (not owner or owner == IN_DOUBT) and begun(run) and call('EXISTS', s.active) == 1
local parked = ownerless and run.phase == 'parked'
local busy = owner and owner == run.token or ownerless
if mode == '' then mode = type(set.mode) == 'string' and set.mode or run.mode or 'queue' end
local cap = within(set.cap, 1, 10000) or tonumber(run.cap) or waiting
local drop = policies[set.drop] or policies[run.drop] or 'new'
-- A collected message waits for more, also if others already wait for more.
local collected = mode == 'collect' and not known and (busy or waiting > 1)
local quiet = int(now + (within(set.debounce_ms, 0, 3600000) or tonumber(run.debounce) or 0)) .. ' ' .. int(math.max(cap, 1))

-- Delayed messages are counted only where they matter: they may be half of the queue.
local over = waiting > line_cap or waiting > line_cap - delayed_cap and waiting + call('ZCARD', s.scheduled) > line_cap

-- Its place, from the end of the queue. False: so many messages came after it that it stays there
-- in any mode, or a /stop has taken it out of the queue.
local place = 0
if not new and (busy or over) and call('LINDEX', s.pending, 0) ~= id then place = call('LPOS', s.pending, id, 'MAXLEN', NEWEST) end

-- A message that replaces the running turn makes room itself.
local first = mode == 'interrupt' or mode == 'rollback'
local urgent = first and (run.phase == 'running' or parked) and place
local full = waiting > cap and not urgent

-- again_at() returns when a turn that waits for its next attempt goes on, or 0.
local function again_at()
  local at = parked and string.match(run.question or '', '^%d+') ~= run.fence and tonumber(run.hold) or 0
  return at > now and at or 0
end

-- 6. Whether it is refused, and the messages that it drops.
local refusal, drops, most = false, {}, cap
if new and busy then
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
      local ahead = goes_first(s, own_id(s, old), call('HGET', s.task .. old, 'first'))
      local msg, unique = load_short(s, old)
      if msg and old ~= id and not ahead then drops[#drops + 1] = {id = old, msg = msg, unique = unique, route = route_of(s, old)} end
      bytes = bytes + #(msg or '')
    end
    call('ZCARD', s.archived)
  end
end
-- A message that drops others makes room itself.
if over and new and not refusal and #drops == 0 then refusal, most = 'line', line_cap end
if refusal then
  return result{now = now, state = refusal, n = refusal == 'busy' and again_at() or most, duplicate = 0}
end

-- 7. It joins the queue.
if new then
  store(now, 'pending_since', int(now) .. '000000')
  call(busy and urgent and 'RPUSH' or 'LPUSH', s.pending, id)
end
mark_seen(now)
-- A repetition gets no new window.
if collected and (new or not was_notified(t.seen, t.seq)) then call('HSET', s.task .. id, 'quiet', quiet) end
if mode == 'steer' and busy and not known then call('HSET', s.task .. id, 'steer', '1') end -- for steer.lua
if not busy then
  local at = next_at(s, now) or now
  if collected and waiting >= cap then at = now end -- with so many messages the wait is over
  if not owner and at <= now then signal_warm(run, session) end
  return result{now = now, state = 'idle', n = at, duplicate = duplicate}
end

-- 8. Dropped messages become dead letters.
for _, d in ipairs(drops) do
  local why = 'dropped: more than ' .. cap .. ' messages were waiting'
  local outcome = '{"type":"turn_ended","status":"dropped","messages":[' .. quote(own_id(s, d.id)) ..
    '],"error":"' .. why .. '","reason":"' .. drop .. '"}'
  call('LREM', s.pending, -1, d.id)
  archive(s, d.id, d.msg, d.unique, why, outcome, now)
  keep_promises(s, {d}, outcome, now)
  call('HDEL', s.followups, own_id(s, d.id))
  append_event(s, outcome)
end
count_archived(s, #drops)
if drop == 'summarize' and #drops > 0 then note_dropped(s, drops) end
waiting = waiting - #drops

-- signal(kind) requests this of the present turn only. One without an owner has nobody to be notified.
local function signal(kind)
  call('HSET', s.run, kind, run.fence)
  if not ownerless then call('PUBLISH', 'turnstile:signal:' .. run.worker, '{"kind":"' .. kind .. '","token":"' .. owner .. '","fence":' .. run.fence .. '}') end
end

-- 9. The owner is notified, and the follow-up is recorded.
local position
if urgent and not known then
  if not new then
    call('LREM', s.pending, 1, id)
    call('RPUSH', s.pending, id)
  end
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
return result{now = now, state = ownerless and (not parked or urgent or requested(run, run.fence) ~= '') and 'ends' or 'queued', n = position, duplicate = duplicate}

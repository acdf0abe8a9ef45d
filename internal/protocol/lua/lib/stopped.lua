-- The list of messages that a /stop has found waiting. Each call archives a batch of it: by the
-- sender of the /stop, or by the next claim if that sender died. It is a separate list, so later
-- messages do not matter.

local WHY_STOPPED = 'stopped by user'

-- stopped_batch(s, list, limits) returns the oldest messages of a list, {id, msg, unique,
-- route} each, and whether there are more. limits is "messages bytes": how many messages at most, and how many bytes
-- of text. The first message may exceed that. A tombstone replaces a msg that is too long.
local function stopped_batch(s, list, limits)
  local most, bytes = string.match(limits, '^(%d+) (%d+)$')
  local batch, size = {}, 0
  local ids = call('LRANGE', list, '-' .. most, -1)
  for i = #ids, 1, -1 do
    size = size + call('HSTRLEN', s.task .. ids[i], 'msg')
    if #batch > 0 and size > tonumber(bytes) then break end
    local msg, unique = load_short(s, ids[i])
    batch[#batch + 1] = {id = ids[i], msg = msg, unique = unique, route = route_of(s, ids[i])}
  end
  return batch, call('LLEN', list) > #batch
end

-- archive_as_stopped(s, t, now) archives t, {id, msg, unique, route}, because of a /stop. It was
-- not part of a turn. Returns how many messages that were: 0 if the task is gone.
local function archive_as_stopped(s, t, now)
  local own = own_id(s, t.id)
  pcall('HDEL', s.followups, own)
  if not t.msg then return 0 end
  local outcome = '{"type":"turn_ended","status":"stopped","messages":[' .. quote(own) .. '],"error":"' .. WHY_STOPPED .. '"}'
  archive(s, t.id, t.msg, t.unique, WHY_STOPPED, outcome, now)
  keep_promises(s, {t}, outcome, now)
  count_archived(s, 1)
  append_event(s, outcome)
  return 1
end

-- archive_stopped(s, batch, now) archives the batch, which is the oldest part of s.stopped by now.
-- Returns how many messages that were.
local function archive_stopped(s, batch, now)
  local n = 0
  for _, t in ipairs(batch) do
    call('RPOP', s.stopped)
    n = n + archive_as_stopped(s, t, now)
  end
  return n
end

-- mark_stopping(s, more) writes into the run record whether s.stopped still has messages, which the
-- next claim archives. Scripts that do not get that key read it there.
local function mark_stopping(s, more)
  if more then
    call('HSET', s.run, 'stopping', '1', 'special', '1')
  elseif call('HGET', s.run, 'stopping') == '1' then
    call('HSET', s.run, 'stopping', '')
  end
end

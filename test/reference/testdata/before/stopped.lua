-- What a /stop has found waiting is a list of its own until all of it is archived, a
-- batch a call: by the sender who asked for it, or by the next claim if that sender
-- has died. So it matters neither what comes meanwhile nor what becomes of any one id.
-- After session.lua and archive.lua.

local WHY_STOPPED = 'stopped by user'

-- stopped_batch(list, limits, longest): the oldest of a list, {id, msg, unique lock} each,
-- and whether there are more. limits: "messages bytes", how many at most, and of how much
-- text, or one. A msg longer than longest is replaced by its tombstone.
local function stopped_batch(list, limits, longest)
  local most, bytes = string.match(limits, '^(%d+) (%d+)$')
  local batch, size = {}, 0
  local ids = call('LRANGE', list, '-' .. most, -1)
  for i = #ids, 1, -1 do
    size = size + call('HSTRLEN', task .. ids[i], 'msg')
    if #batch > 0 and size > tonumber(bytes) then break end
    local msg, unique = load_short(ids[i], longest)
    batch[#batch + 1] = {ids[i], msg, unique}
  end
  return batch, call('LLEN', list) > #batch
end

-- archive_as_stopped(t, prefix, limits, now): t, {id, msg, unique lock}, was in no turn
-- of its own, and is archived because of a /stop. limits are the event stream's. Returns
-- how many messages that were: the task may be gone.
local function archive_as_stopped(t, prefix, limits, now)
  local id = own_id(prefix, t[1])
  pcall('HDEL', followups, id)
  if not t[2] then return 0 end
  local outcome = '{"type":"turn_ended","status":"stopped","messages":[' .. quote(id) .. '],"error":"' .. WHY_STOPPED .. '"}'
  archive(t[1], t[2], t[3], WHY_STOPPED, outcome, now)
  announce(run, events, limits, outcome)
  return 1
end

-- archive_stopped(batch, prefix, limits, now): the batch, now the oldest of stopped, goes
-- to the archive. Returns how many messages these were.
local function archive_stopped(batch, prefix, limits, now)
  local n = 0
  for _, t in ipairs(batch) do
    call('RPOP', stopped)
    n = n + archive_as_stopped(t, prefix, limits, now)
  end
  return n
end

-- mark_stopping(more): run tells the scripts that do not get stopped's key whether that
-- still has messages, which the next claim is to archive.
local function mark_stopping(more)
  if more then
    call('HSET', run, 'stopping', '1', 'special', '1')
  elseif call('HGET', run, 'stopping') == '1' then
    call('HSET', run, 'stopping', '')
  end
end

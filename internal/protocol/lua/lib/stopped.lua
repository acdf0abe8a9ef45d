-- What a /stop has found waiting is a list of its own until all of it is archived, a batch a
-- call: by the sender who sent the /stop, or by the next claim if that sender has died. So it
-- matters neither what comes meanwhile nor what becomes of any one id.

local WHY_STOPPED = 'stopped by user'

-- stopped_batch(s, list, limits): the oldest of a list, {id, msg, unique} each, and whether there
-- are more. limits: "messages bytes", how many at most, and of how much text, or one. A msg
-- that is too long is replaced by its tombstone.
local function stopped_batch(s, list, limits)
  local most, bytes = string.match(limits, '^(%d+) (%d+)$')
  local batch, size = {}, 0
  local ids = call('LRANGE', list, '-' .. most, -1)
  for i = #ids, 1, -1 do
    size = size + call('HSTRLEN', s.task .. ids[i], 'msg')
    if #batch > 0 and size > tonumber(bytes) then break end
    local msg, unique = load_short(s, ids[i])
    batch[#batch + 1] = {id = ids[i], msg = msg, unique = unique}
  end
  return batch, call('LLEN', list) > #batch
end

-- archive_as_stopped(s, t, now): t, {id, msg, unique}, was in no turn of its own, and is archived
-- because of a /stop. Returns how many messages that were: the task may be gone.
local function archive_as_stopped(s, t, now)
  local own = own_id(s, t.id)
  pcall('HDEL', s.followups, own)
  if not t.msg then return 0 end
  local outcome = '{"type":"turn_ended","status":"stopped","messages":[' .. quote(own) .. '],"error":"' .. WHY_STOPPED .. '"}'
  archive(s, t.id, t.msg, t.unique, WHY_STOPPED, outcome, now)
  count_archived(s, 1)
  append_event(s, outcome)
  return 1
end

-- archive_stopped(s, batch, now): the batch, now the oldest of stopped, goes to the archive.
-- Returns how many messages these were.
local function archive_stopped(s, batch, now)
  local n = 0
  for _, t in ipairs(batch) do
    call('RPOP', s.stopped)
    n = n + archive_as_stopped(s, t, now)
  end
  return n
end

-- mark_stopping(s, more): run tells the scripts that do not get stopped's key whether that
-- still has messages, which the next claim is to archive.
local function mark_stopping(s, more)
  if more then
    call('HSET', s.run, 'stopping', '1', 'special', '1')
  elseif call('HGET', s.run, 'stopping') == '1' then
    call('HSET', s.run, 'stopping', '')
  end
end

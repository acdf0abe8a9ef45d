-- undo: removes the last turn's entries from the transcript. For a retry, the same texts become a
-- message at the head of the queue. It is refused while a turn has begun and not ended, or if the
-- transcript was changed since the caller read its end.
--
-- KEYS sentinel run record transcript pending owed outbox deliveries audit call
-- ARGS
--   s.task             prefix of the session's task hashes
--   s.prefix           of task ids
--   s.by               who does it, '' if unknown: see audit
--   turn               to undo; the key call is named after it
--   id                 of the task to enqueue, or ''
--   msg                of the task
--   sid                the transcript's id
--   entries number     how many the turn has, at most 10,000
--   length number      how many the transcript had when it was read, and
--   written number     how many were written to it by then: run's entries,
--     or 0 if these are of another transcript
--   messages list      task ids of the turn's messages
-- RETURNS
--   'ok' removed:int now:int
--   'held'
--   'unsaid'           the session's last message failed or was stopped: it has no turn to undo
--   'changed'          read the transcript again: nothing is written

local now, again = now_ms(), id ~= ''
-- If the turn was removed before, call is "entries task": this is a repetition, or another call has
-- undone the same turn. The message is enqueued unless that was done.
local record = fields(s.record, 'session_id')
local n, put_in = string.match(call('GET', s.call) or '', '^(%d+) (.*)$')
n = tonumber(n)
if n and (not again or put_in ~= '') then return ok{removed = n, now = now} end
local run, out = fields(s.run, 'sid', 'entries', 'phase', 'unsaid'), n
if call('EXISTS', s.sentinel) == 1 or (run.phase or 'idle') ~= 'idle' then return held{} end
if (record.session_id or '') ~= sid then return changed{} end
local after, failed = string.match(run.unsaid or '', '^(%d+) (.*)$')
if failed and tonumber(after) >= (tonumber(string.match(turn, '%d+$')) or 0) then
  local t = fields(s.task .. failed, 'state', 'result')
  local read, outcome = try(cjson.decode, t.state == 'archived' and t.result or '')
  if read and type(outcome) == 'table' and (outcome.status == 'failed' or outcome.status == 'stopped') then return unsaid{} end
end

local counted = run.sid == sid
if not out then
  local so_far = counted and tonumber(run.entries) or 0
  if call('LLEN', s.transcript) ~= length or so_far ~= written then return changed{} end
  n = entries
end
call('LLEN', s.pending)
local tasks = {}
for i, task in ipairs(messages) do
  tasks[i] = {id = task, route = route_of(s, task) or call('EXISTS', s.task .. task) == 0 and remembered_route(s, task)}
end

if not out then
  call('LTRIM', s.transcript, 0, -1 - n)
  -- The count shows warm agents that the transcript has changed: it only rises.
  if counted then call('HINCRBY', s.run, 'entries', 1) end
  local routes, ids = by_route(tasks)
  for _, route in ipairs(routes) do add_record(s, route, 'message.withdrawn', ids[route], ',"turn":' .. quote(turn), now) end
end
call('HSET', s.record, 'updated_at', int(now), 'undone', n .. ' ' .. turn .. ' ' .. id)
keep_result(s, n, id)
audit(s, again and 'retry' or 'undo', turn, now)
if again then
  call('HSET', s.task .. id, 'msg', msg, 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now))
  call('RPUSH', s.pending, id)
  for _, t in ipairs(tasks) do
    if t.route then -- the first one's
      local route = string.gsub(t.route, '^(%S+) %S+', '%1 ' .. own_id(s, t.id), 1)
      call('HSET', s.task .. id, 'route', route)
      promise(s, id, route)
      break
    end
  end
end
return ok{removed = n, now = now}

-- undo: removes the last turn that ended: its entries from the transcript, and its dead letters. For a retry, the same
-- texts become a message at the head of the queue. It is refused while a turn has begun and not ended, or if the
-- session has changed since the caller looked.
--
-- KEYS sentinel run record transcript pending archived owed outbox deliveries audit call
-- ARGS
--   s.task             prefix of the session's task hashes
--   s.prefix           of task ids
--   s.by               who does it, '' if unknown: see audit
--   turn               to undo
--   id                 of the task to enqueue, or ''
--   msg                of the task
--   sid                the transcript's id
--   entries number     how many the turn has, at most 10,000; 0: it left none
--   length number      how many the transcript had when it was read, and
--   written number     how many were written to it by then: run's entries,
--     or 0 if these are of another transcript
--   unsaid             run's field then, or ''
--   messages list      task ids of the turn's messages
-- RETURNS
--   'ok' removed:int now:int
--   'held'
--   'changed'          look again: nothing is written

local now, again = now_ms(), id ~= ''
-- If the turn was removed before, call is "entries task": this is a repetition, or another call has
-- undone the same turn. The message is enqueued unless that was done.
local record = fields(s.record, 'session_id')
local n, put_in = string.match(call('GET', s.call) or '', '^(%d+) (.*)$')
n = tonumber(n)
if n and (not again or put_in ~= '') then return ok{removed = n, now = now} end
local run, out = fields(s.run, 'sid', 'entries', 'phase', 'unsaid'), n
if call('EXISTS', s.sentinel) == 1 or (run.phase or 'idle') ~= 'idle' then return held{} end
if (record.session_id or '') ~= sid or not out and (run.unsaid or '') ~= unsaid then return changed{} end

local counted = run.sid == sid
if not out then
  local so_far = counted and tonumber(run.entries) or 0
  if call('LLEN', s.transcript) ~= length or so_far ~= written then return changed{} end
  n = entries
end
call('LLEN', s.pending)
local tasks, dead, origin = {}, {}, false
for i, task in ipairs(messages) do
  tasks[i] = {id = task, route = route_of(s, task) or call('EXISTS', s.task .. task) == 0 and remembered_route(s, task)}
  if call('ZSCORE', s.archived, task) then dead[#dead + 1] = task end
end
if not out and entries == 0 and #dead < #messages then return changed{} end -- somebody has run or deleted one
if again and messages[1] then origin = call('HGET', s.task .. messages[1], 'origin') end

if not out and entries > 0 then
  call('LTRIM', s.transcript, 0, -1 - n)
  -- The count shows warm agents that the transcript has changed: it only rises.
  if counted then call('HINCRBY', s.run, 'entries', 1) end
  local routes, ids = by_route(tasks)
  for _, route in ipairs(routes) do add_record(s, route, 'message.withdrawn', ids[route], ',"turn":' .. quote(turn), now) end
end
for _, task in ipairs(dead) do
  call('ZREM', s.archived, task)
  call('DEL', s.task .. task)
end
call('HSET', s.record, 'updated_at', int(now))
if n > 0 then call('HSET', s.record, 'undone', n .. ' ' .. turn .. ' ' .. id) end
keep_result(s, n, id)
audit(s, again and 'retry' or 'undo', turn, now)
if again then
  call('HSET', s.task .. id, 'msg', msg, 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now))
  if origin then call('HSET', s.task .. id, 'origin', origin) end -- its steps have the same idempotency keys
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

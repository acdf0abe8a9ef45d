-- rerun: puts the given dead letters back at the end of the queue, in the given order, if they have
-- not changed since the caller read them.
--
-- KEYS pending archived owed outbox deliveries audit call
-- ARGS
--   s.task              prefix of the session's task hashes
--   s.prefix            of task ids
--   s.by                who does it, '' if unknown: see audit
--   statuses            the outcomes that are meant, separated by blanks
--   line_cap number     how many messages may wait: those without room stay dead letters
--   ids list            of the tasks
--   arrived list        of each, '' if it has none. Another one shows that the message has been run
--     and has failed since
-- RETURNS
--   result: moved:int now:int

local now, wanted = now_ms(), {}
local before, at = string.match(call('GET', s.call) or '', '^(%d+) (%d+)$')
if before then return result{moved = tonumber(before), now = tonumber(at)} end
for status in string.gmatch(statuses, '%S+') do wanted[status] = true end

local found, room = {}, line_cap - call('LLEN', s.pending)
for i, id in ipairs(ids) do
  if #found < room and call('ZSCORE', s.archived, id) then
    local t = fields(s.task .. id, 'msg', 'result', 'arrived')
    local ok, outcome = try(cjson.decode, t.result or '')
    if t.msg and (t.arrived or '') == arrived[i] and ok and type(outcome) == 'table' and wanted[outcome.status] then
      found[#found + 1] = {id = id, msg = t.msg, route = route_of(s, id)}
    end
  end
end

for _, f in ipairs(found) do
  local id, msg = f.id, f.msg
  call('ZREM', s.archived, id)
  call('HDEL', s.task .. id, 'result', 'arrived', 'steer')
  -- Without 6 retried, 7 error_msg, 11 last_failed_at: as if it had never been tried.
  call('HSET', s.task .. id, 'state', 'pending', 'pending_since', int(now) .. '000000', 'seen', int(now),
    'msg', without(msg, {[6] = true, [7] = true, [11] = true}))
  call('LPUSH', s.pending, id)
  if f.route then -- it repeats itself
    local route = string.gsub(f.route, '^(%S+) %S+', '%1 ' .. own_id(s, id), 1)
    call('HSET', s.task .. id, 'route', route)
    promise(s, id, route)
  end
end
if #found > 0 then
  keep_result(s, #found, int(now))
  audit(s, 'rerun', int(#found), now)
end
return result{moved = #found, now = now}

-- purge: deletes expired completed tasks and dead letters, a batch at a time.
--
-- KEYS pending active scheduled retry completed archived stopped
-- ARGS
--   s.task             prefix of the session's task hashes
--   batch number       how many at a time
--   archive_ttl number  age at which an archived task goes, seconds
-- RETURNS
--   result: deleted:int more:flag any:flag     1 if more are due; 1 if the queue still holds any task

local seconds = math.floor(now_ms() / 1000)
local old, more = {}, 0
for _, z in ipairs({{key = s.completed, till = seconds}, {key = s.archived, till = seconds - archive_ttl}}) do
  local ids = call('ZRANGEBYSCORE', z.key, '-inf', int(z.till), 'LIMIT', 0, batch)
  for _, id in ipairs(ids) do
    local unique = pcall('HGET', s.task .. id, 'unique_key')
    if type(unique) ~= 'string' or pcall('GET', unique) ~= id then unique = false end
    old[#old + 1] = {key = z.key, id = id, unique = unique}
  end
  if #ids == batch then more = 1 end
end
for _, t in ipairs(old) do
  call('UNLINK', s.task .. t.id)
  call('ZREM', t.key, t.id)
  if t.unique then call('DEL', t.unique) end
end
local any = call('EXISTS', s.pending, s.active, s.scheduled, s.retry, s.completed, s.archived, s.stopped)
return result{deleted = #old, more = more, any = any > 0 and 1 or 0}

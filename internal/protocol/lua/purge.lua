-- purge: deletes expired completed tasks and dead letters, a batch at a time, and the events of a session that is idle.
--
-- KEYS sentinel run events pending active scheduled retry completed archived
-- ARGS
--   s.task             prefix of the session's task hashes
--   batch number       how many at a time
--   archive_ttl number  age at which an archived task goes, seconds
--   quiet number       age of an idle session's last event at which its events go, ms
--   events_cap int     see append_event
-- RETURNS
--   result: deleted:int more:flag     tasks; 1 if more are due

local now = now_ms()
local seconds = math.floor(now / 1000)
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
local last = false -- entry of events that go
if call('EXISTS', s.sentinel, s.pending, s.active, s.scheduled, s.retry) == 0 then
  last = call('XREVRANGE', s.events, '+', '-', 'COUNT', 1)[1]
  if last and tonumber((string.match(last[1], '^%d+'))) >= now - quiet then last = false end
  call('HGET', s.run, 'gone')
end
for _, t in ipairs(old) do
  call('UNLINK', s.task .. t.id)
  call('ZREM', t.key, t.id)
  if t.unique then call('DEL', t.unique) end
end
if last then
  call('HDEL', s.run, 'stream') -- the first write, which a full Redis does not refuse
  -- Who has read the last entry has missed nothing: see events_after.
  call('HSET', s.run, 'gone', last[1] .. ' ' .. int(#last[2] / 2) .. ' ' .. events_cap)
  call('UNLINK', s.events)
end
return result{deleted = #old, more = more}

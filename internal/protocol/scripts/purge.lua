-- Code generated from ../lua/purge.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_sentinel, s_run, s_events, s_pending, s_active, s_scheduled, s_retry, s_completed, s_archived, s_task = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], ARGV[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local batch, archive_ttl, quiet, events_cap = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local now = now_ms()
local seconds = math.floor(now / 1000)
local old, more = {}, 0
for _, z in ipairs({{key = s_completed, till = seconds}, {key = s_archived, till = seconds - archive_ttl}}) do
  local ids = call('ZRANGEBYSCORE', z.key, '-inf', string.format('%d', z.till), 'LIMIT', 0, batch)
  for _, id in ipairs(ids) do
    local unique = pcall('HGET', s_task .. id, 'unique_key')
    if type(unique) ~= 'string' or pcall('GET', unique) ~= id then unique = false end
    old[#old + 1] = {key = z.key, id = id, unique = unique}
  end
  if #ids == batch then more = 1 end
end
local last = false -- entry of events that go
if call('EXISTS', s_sentinel, s_pending, s_active, s_scheduled, s_retry) == 0 then
  last = call('XREVRANGE', s_events, '+', '-', 'COUNT', 1)[1]
  if last and tonumber((string.match(last[1], '^%d+'))) >= now - quiet then last = false end
  call('HGET', s_run, 'gone')
end
for _, t in ipairs(old) do
  call('UNLINK', s_task .. t.id)
  call('ZREM', t.key, t.id)
  if t.unique then call('DEL', t.unique) end
end
if last then
  call('HDEL', s_run, 'stream') -- the first write, which a full Redis does not refuse
  -- Who has read the last entry has missed nothing: see events_after.
  call('HSET', s_run, 'gone', last[1] .. ' ' .. string.format('%d', (#last[2] / 2)) .. ' ' .. events_cap)
  call('UNLINK', s_events)
end
return {#old, more}

-- Code generated from ../lua/purge.lua by go generate; DO NOT EDIT.
--
-- purge: deletes expired completed tasks and dead letters, a batch at a time.
--
-- KEYS pending active scheduled retry completed archived stopped
-- ARGS
--   s.task             prefix of the session's task hashes
--   batch number       how many at a time
--   archive_ttl number  age at which an archived task goes, seconds
-- RETURNS
--   result: deleted:int more:flag any:flag     1 if more are due; 1 if the queue still holds any task

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_pending, s_active, s_scheduled, s_retry, s_completed, s_archived, s_stopped, s_task = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], ARGV[1]

-- Redis' clock in milliseconds. No script reads another clock.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local batch, archive_ttl = tonumber(ARGV[2]), tonumber(ARGV[3])

local seconds = math.floor(now_ms() / 1000)
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
for _, t in ipairs(old) do
  call('UNLINK', s_task .. t.id)
  call('ZREM', t.key, t.id)
  if t.unique then call('DEL', t.unique) end
end
local any = call('EXISTS', s_pending, s_active, s_scheduled, s_retry, s_completed, s_archived, s_stopped)
return {#old, more, any > 0 and 1 or 0}

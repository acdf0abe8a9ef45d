-- steer: waiting messages that are to be steered into the running turn become a
-- part of it: they are acked or redelivered with it.
--
-- ARGV[4] sentinel's TTL, ms
-- ARGV[5] prefix of task ids
-- ARGV[6...] ids of the turn's tasks that the owner knows of
--
-- Answers {'ok', {{id, msg, age in ms, redeliveries} ...}}: those that the owner
-- does not know of, be it that an earlier answer was lost; or {'lost'}.

if not owned then return {'lost'} end
local now, prefix = now_ms(), ARGV[5]
local ids = cjson.decode(call('HGET', run, 'ids'))
local known = {}
for i = 6, #ARGV do known[ARGV[i]] = true end

local steered = {}
-- A turn that is to end takes no more: a message that came after /stop is not
-- what that stop meant.
local all = asked() == '' and call('HGETALL', followups) or {}
for i = 1, #all, 2 do
  local ok, f = try(cjson.decode, all[i + 1])
  if ok and type(f) == 'table' and f.mode == 'steer' and f.state == 'queued' then
    local id = prefix .. all[i]
    local t = call('HMGET', task .. id, 'msg', 'state')
    if t[1] and t[2] == 'pending' then
      steered[#steered + 1] = {id, all[i], f, tonumber(f.arrived_at) or 0, tonumber(f.order) or 0}
    end
  end
end
table.sort(steered, function(a, b)
  if a[4] ~= b[4] then return a[4] < b[4] end
  if a[5] ~= b[5] then return a[5] < b[5] end
  return a[1] < b[1]
end)
call('LLEN', active)
call('LLEN', pending)

call('PEXPIRE', sentinel, ARGV[4])
for _, s in ipairs(steered) do
  if call('LREM', pending, 1, s[1]) == 1 then
    call('LPUSH', active, s[1])
    call('HSET', task .. s[1], 'state', 'active')
    s[3].state = 'steered'
    call('HSET', followups, s[2], cjson.encode(s[3]))
    ids[#ids + 1] = s[1]
  end
end
if #steered > 0 then call('HSET', run, 'ids', cjson.encode(ids)) end
call('HDEL', run, 'steer')
local new = {}
for _, id in ipairs(ids) do
  if not known[id] then new[#new + 1] = id end
end
return {'ok', taken(new, now)}

-- purge: completed tasks whose retention is over and archived ones that are too
-- old are deleted, a batch at a time.
--
-- ARGV[2] batch
-- ARGV[3] age at which an archived task goes, seconds
--
-- Answers {deleted, 1 if more are due, 1 if the queue still holds any task}.

local seconds = math.floor(now_ms() / 1000)
local old, more = {}, 0
for _, z in ipairs({{completed, seconds}, {archived, seconds - tonumber(ARGV[3])}}) do
  local ids = call('ZRANGEBYSCORE', z[1], '-inf', int(z[2]), 'LIMIT', 0, ARGV[2])
  for _, id in ipairs(ids) do
    local unique = pcall('HGET', task .. id, 'unique_key')
    if type(unique) ~= 'string' or pcall('GET', unique) ~= id then unique = false end
    old[#old + 1] = {z[1], id, unique}
  end
  if #ids == tonumber(ARGV[2]) then more = 1 end
end
for _, t in ipairs(old) do
  call('UNLINK', task .. t[2])
  call('ZREM', t[1], t[2])
  if t[3] then call('DEL', t[3]) end
end
local any = call('EXISTS', pending, active, scheduled, retry, completed, archived, stopped)
return {#old, more, any > 0 and 1 or 0}

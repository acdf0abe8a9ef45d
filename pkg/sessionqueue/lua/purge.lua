-- purge: completed tasks whose retention is over and archived ones that are too
-- old are deleted, a batch at a time.
--
-- ARGV[2] batch
-- ARGV[3] age at which an archived task goes, seconds
--
-- Answers {deleted, 1 if more are due, 1 if the queue still holds any task}.

local seconds = math.floor(now_ms() / 1000)
local n, more = 0, 0
for _, z in ipairs({{completed, seconds}, {archived, seconds - tonumber(ARGV[3])}}) do
  local ids = call('ZRANGEBYSCORE', z[1], '-inf', int(z[2]), 'LIMIT', 0, ARGV[2])
  for _, id in ipairs(ids) do
    local _, unique = load(id)
    call('DEL', task .. id)
    call('ZREM', z[1], id)
    if unique then call('DEL', unique) end
  end
  n = n + #ids
  if #ids == tonumber(ARGV[2]) then more = 1 end
end
local any = call('EXISTS', pending, active, scheduled, retry, completed, archived)
return {n, more, any > 0 and 1 or 0}

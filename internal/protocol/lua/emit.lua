-- emit: writes the next events of a turn. A batch is never written twice.
--
-- KEYS sentinel run events
-- ARGS
--   s.token
--   s.fence int
--   s.events_cap int   see append_event
--   s.short number     bytes
--   s.large_bytes int
--   ttl int            the sentinel's, ms
--   number             of this batch within the turn, from 1
--   batch list         events, JSON
-- RETURNS
--   'ok'
--   'lost'

local run = fields(s.run, 'token', 'fence', 'seq')
if not owned(s, run) then return lost{} end
local at, last = string.match(run.seq or '', '^(%d+) (%d+)$') -- of which turn
call('XLEN', s.events)
call('PEXPIRE', s.sentinel, ttl)
if at == s.fence and tonumber(last) >= tonumber(number) then return ok{} end
call('HSET', s.run, 'seq', s.fence .. ' ' .. number)
for _, event in ipairs(batch) do append_event(s, event) end
return ok{}

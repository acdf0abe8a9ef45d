-- dismiss: archives one of several messages of a turn, which must not run. The turn continues
-- without it.
--
-- KEYS sentinel run followups events active lease processed processed_day archived failed failed_day
-- KEYS owed outbox deliveries
-- ARGS
--   s.task             prefix of the session's task hashes
--   s.prefix           of task ids
--   s.token
--   s.fence int
--   s.events_cap int   see append_event
--   s.short number     bytes
--   s.large_bytes int
--   ttl int            the sentinel's, ms
--   id                 of the task
--   own                the message's own id
--   why
--   outcome            JSON
-- RETURNS
--   'ok'
--   'lost'

local run = fields(s.run, 'token', 'fence', 'ids')
if not owned(s, run) then return lost{} end
local now, ids, rest = now_ms(), cjson.decode(run.ids), {}
for _, other in ipairs(ids) do
  if other ~= id then rest[#rest + 1] = other end
end
local msg, unique = load_msg(s, id)
local route = route_of(s, id)
call('ZCARD', s.archived)
call('LLEN', s.active)

call('PEXPIRE', s.sentinel, ttl)
if #rest == #ids then return ok{} end -- a repetition
call('HSET', s.run, 'ids', cjson.encode(rest))
call('LREM', s.active, -1, id)
pcall('ZREM', s.lease, id)
pcall('HDEL', s.followups, own)
if msg then
  archive(s, id, msg, unique, why, outcome, now)
  keep_promises(s, {{id = id, route = route}}, outcome, now)
  count_archived(s, 1)
end
append_event(s, outcome)
return ok{}

-- trim: archives waiting messages beyond the queue's cap, the newest first, then delayed messages
-- beyond it, the last due first. They come from producers that do not know the cap. A call archives
-- at most 100 messages or about 4 MiB.
--
-- KEYS run followups events pending scheduled processed processed_day archived failed failed_day owed outbox deliveries
-- ARGS
--   s.task               prefix of the session's task hashes
--   s.prefix             of task ids
--   s.events_cap int     see append_event
--   s.short number       bytes
--   s.large_bytes int
--   s.longest number     how many bytes a task's msg may have
--   line_cap number      how many may wait
-- RETURNS
--   result: left:int more:flag     how many left the queue; 1 if there are more: call again

local MOST, BYTES = 100, 4 * 1024 * 1024
local now = now_ms()
local over, list = call('LLEN', s.pending) - line_cap, s.pending
if over <= 0 then over, list = call('ZCARD', s.scheduled) - line_cap, s.scheduled end
local ids, batch, size = {}, {}, 0
if over > 0 and list == s.pending then ids = call('LRANGE', s.pending, 0, math.min(over, MOST) - 1) end
if over > 0 and list == s.scheduled then ids = call('ZREVRANGE', s.scheduled, 0, math.min(over, MOST) - 1) end
for _, id in ipairs(ids) do
  if size >= BYTES then break end
  local msg, unique = load_short(s, id)
  batch[#batch + 1] = {id = id, msg = msg, unique = unique, route = route_of(s, id)}
  size = size + #(msg or '')
end
call('ZCARD', s.archived)

if #batch > 0 and list == s.pending then call('LTRIM', s.pending, #batch, -1) end
local n, why = 0, 'dropped: more than ' .. int(line_cap) .. ' messages were waiting'
for _, t in ipairs(batch) do
  local own = own_id(s, t.id)
  if list == s.scheduled then call('ZREM', s.scheduled, t.id) end
  pcall('HDEL', s.followups, own)
  if t.msg then
    local outcome = '{"type":"turn_ended","status":"dropped","messages":[' .. quote(own) .. '],"error":"' .. why .. '","reason":"line"}'
    archive(s, t.id, t.msg, t.unique, why, outcome, now)
    keep_promises(s, {t}, outcome, now)
    append_event(s, outcome)
    n = n + 1
  end
end
count_archived(s, n)
return result{left = #batch, more = over > #batch and 1 or 0}

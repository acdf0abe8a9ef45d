-- trim: what waits in a line beyond its cap is archived, the newest first, and delayed
-- messages beyond it as well, the last to be due first. These are of producers that know
-- no cap. A call archives at most 100 messages or about 4 MiB.
--
-- ARGV[2] prefix of task ids        ARGV[4] limits of the event stream
-- ARGV[3] how many may wait         ARGV[5] how many bytes a task's msg may have
--
-- Answers {how many left the line, 1 if there are more: call again}.

local MOST, BYTES = 100, 4 * 1024 * 1024
local prefix, cap, longest, now = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), now_ms()
local over, list = call('LLEN', pending) - cap, pending
if over <= 0 then over, list = call('ZCARD', scheduled) - cap, scheduled end
local ids, batch, size = {}, {}, 0
if over > 0 and list == pending then ids = call('LRANGE', pending, 0, math.min(over, MOST) - 1) end
if over > 0 and list == scheduled then ids = call('ZREVRANGE', scheduled, 0, math.min(over, MOST) - 1) end
for _, id in ipairs(ids) do
  if size >= BYTES then break end
  local msg, unique = load_short(id, longest)
  batch[#batch + 1] = {id, msg, unique}
  size = size + #(msg or '')
end
call('ZCARD', archived)

if #batch > 0 and list == pending then call('LTRIM', pending, #batch, -1) end
local n, why = 0, 'dropped: more than ' .. int(cap) .. ' messages were waiting'
for _, t in ipairs(batch) do
  local own = own_id(prefix, t[1])
  if list == scheduled then call('ZREM', scheduled, t[1]) end
  pcall('HDEL', followups, own)
  if t[2] then
    local outcome = '{"type":"turn_ended","status":"dropped","messages":[' .. quote(own) .. '],"error":"' .. why .. '","reason":"line"}'
    move_to_archive(t[1], t[2], t[3], why, outcome, now)
    announce(run, events, ARGV[4], outcome)
    n = n + 1
  end
end
count_archived(n)
return {#batch, over > #batch and 1 or 0}

-- The session's event stream.

-- announce(s, event, start): an event joins the stream, with its turn's start where that was
-- not announced before. s.event_limits begin with about how many entries the stream keeps,
-- and end with two numbers behind blanks: events longer than the first are large, and the
-- second is how many bytes these have. Without those two nothing is counted. Short events
-- are bounded by their number.
--
-- They are counted in two generations, in the run record's stream: "bytes of the older one,
-- of the younger one, its first id". When the younger one has half of the limit it becomes
-- the older one, and what was before it goes. Only an event that alone is longer than the
-- limit stays in spite of it, until the next large one.
local function announce(s, event, start)
  local call, id = redis.pcall, false
  local cap, short, bytes = string.match(s.event_limits, '^(%d+).- (%d+) (%d+)$')
  local size = #event
  cap, short, bytes = cap or string.match(s.event_limits, '^%d+'), tonumber(short), tonumber(bytes)
  if (start or '') == '' then
    id = call('XADD', s.events, 'MAXLEN', '~', cap, '*', 'e', event)
  else
    id, size = call('XADD', s.events, 'MAXLEN', '~', cap, '*', 's', start, 'e', event), size + #start
  end
  if not short or size <= short or type(id) ~= 'string' then return end
  local was = call('HGET', s.run, 'stream')
  if type(was) == 'table' then return end
  local older, younger, from = string.match(was or '', '^(%d+) (%d+) (%S+)$')
  older, younger, from = tonumber(older) or 0, tonumber(younger) or 0, from or '0'
  local first = false -- that stays
  if younger + size > bytes / 2 then
    first, older, younger, from = from, younger, 0, id
  end
  younger = younger + size
  if older + younger > bytes then first, older = from, 0 end
  if first then call('XTRIM', s.events, 'MINID', '~', first) end
  call('HSET', s.run, 'stream', int(older) .. ' ' .. int(younger) .. ' ' .. from)
end

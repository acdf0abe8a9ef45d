-- Events, for the scripts that tell them, after lockguard's prelude.

-- announce(run, events, limits, event, start): an event joins the session's stream, with
-- its turn's start where that was not told before. limits begin with about how many
-- entries the stream keeps, and end with two numbers behind blanks: events longer than the
-- first are large, and the second is how many bytes these have. Without those two nothing
-- is counted. Short events are bounded by their number.
--
-- They are counted in two generations, in run's stream: "bytes of the older one, of the
-- younger one, its first id". When the younger one has half of the limit it becomes the
-- older one, and what was before it goes. Only an event that alone is longer than the
-- limit stays in spite of it, until the next large one.
local function announce(run, events, limits, event, start)
  local call, id = redis.pcall, false
  local cap, short, bytes = string.match(limits, '^(%d+).- (%d+) (%d+)$')
  local size = #event
  cap, short, bytes = cap or string.match(limits, '^%d+'), tonumber(short), tonumber(bytes)
  if (start or '') == '' then
    id = call('XADD', events, 'MAXLEN', '~', cap, '*', 'e', event)
  else
    id, size = call('XADD', events, 'MAXLEN', '~', cap, '*', 's', start, 'e', event), size + #start
  end
  if not short or size <= short or type(id) ~= 'string' then return end
  local was = call('HGET', run, 'stream')
  if type(was) == 'table' then return end
  local older, younger, from = string.match(was or '', '^(%d+) (%d+) (%S+)$')
  older, younger, from = tonumber(older) or 0, tonumber(younger) or 0, from or '0'
  local first = false -- that stays
  if younger + size > bytes / 2 then
    first, older, younger, from = from, younger, 0, id
  end
  younger = younger + size
  if older + younger > bytes then first, older = from, 0 end
  if first then call('XTRIM', events, 'MINID', '~', first) end
  call('HSET', run, 'stream', int(older) .. ' ' .. int(younger) .. ' ' .. from)
end

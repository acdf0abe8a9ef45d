-- The session's event stream.

-- append_event(s, event, start) writes an event into the stream, with its turn's start if the
-- stream does not have that yet. The stream keeps about s.events_cap entries. Events of more than
-- s.short bytes are large: together they may have s.large_bytes. If s.large_bytes is 0, nothing is
-- counted. Short events are bounded by their number.
--
-- Large events are counted in two generations, in the run record's stream: "bytes of the older one,
-- of the younger one, its first id". If the next event takes the younger one past half of the
-- limit, the younger one becomes the older one, the event begins a new one, and all earlier events
-- are deleted. An event above the limit stays until the next large one.
local function append_event(s, event, start)
  local size, id = #event, false
  if (start or '') == '' then
    id = pcall('XADD', s.events, 'MAXLEN', '~', s.events_cap, '*', 'e', event)
  else
    id, size = pcall('XADD', s.events, 'MAXLEN', '~', s.events_cap, '*', 's', start, 'e', event), size + #start
  end
  if size <= s.short or s.large_bytes == '0' or type(id) ~= 'string' then return end
  local was = pcall('HGET', s.run, 'stream')
  if type(was) == 'table' then return end
  local older, younger, from = string.match(was or '', '^(%d+) (%d+) (%S+)$')
  older, younger, from = tonumber(older) or 0, tonumber(younger) or 0, from or '0'
  local first, most = false, tonumber(s.large_bytes) -- first: id of the first event that stays
  if younger + size > most / 2 then
    first, older, younger, from = from, younger, 0, id
  end
  younger = younger + size
  if older + younger > most then first, older = from, 0 end
  if first then pcall('XTRIM', s.events, 'MINID', '~', first) end
  pcall('HSET', s.run, 'stream', int(older) .. ' ' .. int(younger) .. ' ' .. from)
end

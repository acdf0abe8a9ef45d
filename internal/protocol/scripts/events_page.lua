-- Code generated from ../lua/events_page.lua by go generate; DO NOT EDIT.
--
-- events_page: returns a page of a session's events. Writes nothing.
--
-- KEYS events
-- ARGS
--   after           id of the event before the first
--   room number     how many bytes a page has. Its last event may exceed that: a page has at least one,
--     however long. 0: no event, only whether there is one
-- RETURNS
--   result: more:flag entries...    more: 1 if there may be more; entries: as XRANGE returns them

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_events = KEYS[1]
local after, room = ARGV[1], tonumber(ARGV[2])

local MOST = 1000 -- events of a page
if room == 0 then return {#call('XRANGE', s_events, '(' .. after, '+', 'COUNT', 1)} end
local page, total, n = {0}, 0, 1
repeat
  local some = call('XRANGE', s_events, '(' .. after, '+', 'COUNT', n)
  for _, event in ipairs(some) do
    if total >= room then break end
    page[#page + 1], after = event, event[1]
    total = total + 32 -- the id, and the reply's framing
    for _, text in ipairs(event[2]) do total = total + #text end
  end
  if #some < n then return page end
  -- As many more as would fit if they were as long as these, but at most 64: any may be longer.
  n = math.floor((room - total) / (total / (#page - 1)))
  n = math.max(math.min(n, 64, MOST - #page + 1), 1)
until total >= room or #page > MOST
page[1] = 1
return page

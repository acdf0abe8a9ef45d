-- events_after: returns a page of a session's events after one that a reader has seen. It checks
-- that the stream still has that one, or had it last before purge deleted all and has not been trimmed
-- since, so that no event between is lost. Writes nothing.
--
-- KEYS run record events
-- ARGS
--   after            id of the entry that was read last; '': none, read from the beginning
--   seen number      how many events of that entry were read
--   room number      how many bytes a page has. Its last entry may exceed that: a page has at least
--     one, however long
-- RETURNS
--   'page' more:flag entries...   more: 1 if there may be more; entries: as XRANGE returns them
--   'gap'            the entry was trimmed, and others behind it may have been
--   'reset'          the stream never had this entry: it is another one

local MOST = 1000 -- entries of a page
local list, total, n = page{more = 0}, 0, 1
local function add(entry)
  list[#list + 1], after = entry, entry[1]
  total = total + 32 -- the id, and the reply's framing
  for _, text in ipairs(entry[2]) do total = total + #text end
end
if after == '' then
  after = '0'
else
  local own = call('XRANGE', s.events, after, after)[1]
  if own then
    if #own[2] / 2 > seen then add(own) end
  else
    local run = fields(s.run, 'gone', 'stream')
    local gone, events, cap = string.match(run.gone or '', '^(%S+) (%d+) (%d+)$')
    -- A trimmed stream has at least cap entries, unless large events were trimmed.
    local whole = gone and call('XLEN', s.events) < tonumber(cap) and string.match(run.stream or ' 0', '%S+$') == '0'
    if gone ~= after or tonumber(events) > seen or not whole then
      local first = call('XRANGE', s.events, '-', '+', 'COUNT', 1)[1]
      -- The embedded server cannot compare ids, so read whether an entry precedes it.
      if first and #call('XRANGE', s.events, '-', after, 'COUNT', 1) > 0 then return reset{} end
      local function ms(id) return tonumber((string.match(id or '', '^(%d+)-'))) or 0 end
      local created = tonumber(call('HGET', s.record, 'created_at') or '') or 0
      if ms(after) < created or call('EXISTS', s.events) == 0 and ms(after) > ms(gone) then return reset{} end
      return gap{}
    end
  end
end
while total < room do
  local some = call('XRANGE', s.events, '(' .. after, '+', 'COUNT', n)
  for _, entry in ipairs(some) do
    if total >= room then break end
    add(entry)
  end
  if #some < n then return list end
  -- As many more as would fit if they were as long as these, but at most 64: any may be longer.
  n = math.floor((room - total) / (total / (#list - 2)))
  n = math.max(math.min(n, 64, MOST - #list + 2), 1)
  if #list - 2 >= MOST then break end
end
list[2] = 1
return list

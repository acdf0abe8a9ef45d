-- transcript_page: returns a page of a transcript, from its end towards its beginning. Writes nothing.
--
-- KEYS transcript
-- ARGS
--   oldest number     how many of the oldest entries are meant; -1: all
--   room number       how many bytes a page has. Its last entry may exceed that: a page has at least one,
--     however long
--   most number       how many entries a page has, at most 2,000; 0: 2,000
-- RETURNS
--   result: left:int entries...      left: how many older entries are left; entries: the newest first

if most < 1 or most > 2000 then most = 2000 end
local left = oldest >= 0 and oldest or call('LLEN', s.transcript)
local page, total, n = result{left = left}, 0, math.min(8, most)
while left > 0 and total < room and #page <= most do
  local some = call('LRANGE', s.transcript, math.max(left - n, 0), left - 1)
  if #some == 0 then break end
  for i = #some, 1, -1 do
    if total >= room then break end
    page[#page + 1] = some[i]
    total, left = total + #some[i], left - 1
  end
  -- As many more as would fit if they were as long as these, but at most 64: any may be longer.
  n = math.floor((room - total) / (total / (#page - 1)))
  n = math.max(math.min(n, 64, most - #page + 1), 1)
end
page[1] = left
return page

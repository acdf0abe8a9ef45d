-- past: a page of a transcript, from its end towards its beginning. Reads only.
--
-- KEYS[1] the transcript
-- ARGV[1] how many of the oldest entries are meant; '': all
-- ARGV[2] how many bytes a page has. Its last entry may exceed that: each page has
--         one, however long
--
-- Answers {how many older ones are left, entries, the newest first}.

local left, room = tonumber(ARGV[1]), tonumber(ARGV[2])
if not left then left = redis.call('LLEN', KEYS[1]) end
local page = {left}
while left > 0 and room > 0 do
  -- Few at a time: any of them may be long.
  local some = redis.call('LRANGE', KEYS[1], math.max(left - 16, 0), left - 1)
  if #some == 0 then break end
  for i = #some, 1, -1 do
    if room <= 0 then break end
    page[#page + 1] = some[i]
    room, left = room - #some[i], left - 1
  end
end
page[1] = left
return page

-- past: a page of a transcript, from its end towards its beginning. Reads only.
--
-- KEYS[1] the transcript
-- ARGV[1] how many of the oldest entries are meant; '': all
-- ARGV[2] how many bytes a page has. Its last entry may exceed that: each page has
--         one, however long
--
-- Answers {how many older ones are left, entries, the newest first}.

local MOST = 2000 -- entries of a page
local left, room = tonumber(ARGV[1]), tonumber(ARGV[2])
if not left then left = redis.call('LLEN', KEYS[1]) end
local page, total, n = {left}, 0, 8
while left > 0 and total < room and #page <= MOST do
  local some = redis.call('LRANGE', KEYS[1], math.max(left - n, 0), left - 1)
  if #some == 0 then break end
  for i = #some, 1, -1 do
    if total >= room then break end
    page[#page + 1] = some[i]
    total, left = total + #some[i], left - 1
  end
  -- As many more as would fit if they were as long as these: any may be longer.
  n = math.floor((room - total) / (total / (#page - 1)))
  n = math.max(math.min(n, 64, MOST - #page + 1), 1)
end
page[1] = left
return page

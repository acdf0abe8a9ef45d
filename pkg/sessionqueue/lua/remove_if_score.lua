-- remove_if_score: members of an index leave it, unless somebody has given them
-- another score meanwhile.
--
-- KEYS[1] the index
-- ARGV    at most 1,000 members, then a score for each
--
-- Answers how many left.

local n, unchanged = #ARGV / 2, {}
local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 1, n))
for i = 1, n do
  if scores[i] and tonumber(scores[i]) == tonumber(ARGV[n + i]) then unchanged[#unchanged + 1] = ARGV[i] end
end
if #unchanged == 0 then return 0 end
return redis.call('ZREM', KEYS[1], unpack(unchanged))

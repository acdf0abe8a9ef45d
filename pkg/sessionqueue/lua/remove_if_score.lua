-- remove_if_score: members of an index leave it, unless somebody has given them
-- another score meanwhile.
--
-- KEYS[1] the index
-- ARGV    member, score, member, score ...
--
-- Answers how many left.

local n = 0
for i = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[i + 1]) then n = n + redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return n

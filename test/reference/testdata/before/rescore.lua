-- rescore: members of an index get another score or leave it, unless somebody has
-- given them another one meanwhile.
--
-- KEYS[1] the index
-- ARGV    at most 1,000 members, then the score that was read of each, then for each
--         the one that it gets, or '' to leave
--
-- Answers how many were changed.

local n, gone, moved = #ARGV / 3, {}, {}
local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 1, n))
for i = 1, n do
  if scores[i] and tonumber(scores[i]) == tonumber(ARGV[n + i]) then
    local member, to = ARGV[i], ARGV[2 * n + i]
    if to == '' then
      gone[#gone + 1] = member
    else
      moved[#moved + 1], moved[#moved + 2] = to, member
    end
  end
end
if #gone > 0 then redis.call('ZREM', KEYS[1], unpack(gone)) end
if #moved > 0 then redis.call('ZADD', KEYS[1], 'XX', unpack(moved)) end
return #gone + #moved / 2

-- rescore: gives members of an index another score, or removes them, unless their score has changed
-- since it was read.
--
-- KEYS index
-- ARGS
--   members list     at most 1,000
--   were list        the score that was read of each
--   to list          the new score of each, or '' to remove it
-- RETURNS
--   result: changed:int  how many

local gone, moved = {}, {}
local scores = call('ZMSCORE', s.index, unpack(members))
for i, member in ipairs(members) do
  if scores[i] and tonumber(scores[i]) == tonumber(were[i]) then
    if to[i] == '' then
      gone[#gone + 1] = member
    else
      moved[#moved + 1], moved[#moved + 2] = to[i], member
    end
  end
end
if #gone > 0 then call('ZREM', s.index, unpack(gone)) end
if #moved > 0 then call('ZADD', s.index, 'XX', unpack(moved)) end
return result{changed = #gone + #moved / 2}

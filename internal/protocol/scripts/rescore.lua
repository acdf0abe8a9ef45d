-- Code generated from ../lua/rescore.lua by go generate; DO NOT EDIT.
--
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

local call, pcall, try = redis.call, redis.pcall, pcall
local KEYS, ARGV = KEYS, ARGV
local s_index = KEYS[1]
local at = 1
local function list()
  local l, n = {}, tonumber(ARGV[at])
  for i = 1, n do l[i] = ARGV[at + i] end
  at = at + n + 1
  return l
end
local members = list()
local were = list()
local to = list()

local gone, moved = {}, {}
local scores = call('ZMSCORE', s_index, unpack(members))
for i, member in ipairs(members) do
  if scores[i] and tonumber(scores[i]) == tonumber(were[i]) then
    if to[i] == '' then
      gone[#gone + 1] = member
    else
      moved[#moved + 1], moved[#moved + 2] = to[i], member
    end
  end
end
if #gone > 0 then call('ZREM', s_index, unpack(gone)) end
if #moved > 0 then call('ZADD', s_index, 'XX', unpack(moved)) end
return {#gone + #moved / 2}
